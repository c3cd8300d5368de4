package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/files"
	"psim/reports"
	"psim/reports/picture"
	"psim/results"
)

// An asked context ends once it was asked so often whether it has.
type asked struct {
	context.Context
	left *atomic.Int64
	end  context.CancelFunc
}

func (a asked) Err() error {
	if a.left.Add(-1) == 0 {
		a.end()
	}
	return a.Context.Err()
}

func (a asked) Done() <-chan struct{} {
	a.Err()
	return a.Context.Done()
}

// interrupted runs a command that is interrupted at the n-th question.
func interrupted(line string, n int64) (stdout, stderr string, code int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	left := new(atomic.Int64)
	left.Store(n)
	var out, said strings.Builder
	code = run(asked{ctx, left, cancel}, strings.Fields(line)[1:], &out, &said)
	return out.String(), said.String(), code
}

// An interrupt at any moment leaves a finished result as it was. What has been found
// or measured is printed, and put beside that, with a word where; or into the folder
// itself, if nothing was there. It is marked.
func TestInterruptedAnywhere(t *testing.T) {
	writeTinyMLP(t)
	require.NoError(t, os.WriteFile("auto.toml", []byte(autoTimes), 0o644))
	for _, c := range [][2]string{
		{"psim exec mlp.toml --oversubscribe --steps 3 --repeats 1", "result.json"},
		{"psim search auto.toml", "plans.json"},
	} {
		line, saved := c[0], c[1]
		verb := strings.Fields(line)[1]
		_, stderr, code := psim(t, line+" --quiet --out "+verb)
		require.Zero(t, code, stderr)
		before, partial := tree(t, verb), 0
		for n := int64(1); n == 1 || code != exitDone; n *= 2 {
			for _, folder := range []string{fmt.Sprint(verb, n), verb} {
				var stdout string
				stdout, stderr, code = interrupted(line+" --out "+folder, n)
				if code == exitDone {
					continue
				}
				require.True(t, strings.HasSuffix(stderr, "psim: interrupted\n"), stderr)
				require.Equal(t, before, tree(t, verb))
				if stdout == "" {
					require.NoDirExists(t, fmt.Sprint(verb, n))
					continue
				}
				partial++
				if folder == verb {
					folder += ".partial"
				}
				require.Contains(t, stderr, "until the interrupt, in "+folder+"\n")
				require.Contains(t, tree(t, folder)[folder+"/"+saved], `"partial": true`)
			}
		}
		require.Positive(t, partial)
	}
}

// Predictions of a course that are interrupted while they are drawn leave no file.
func TestReproduceInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const many = 1 << 40
	left := new(atomic.Int64)
	left.Store(many)
	require.Zero(t, run(asked{ctx, left, cancel}, []string{"reproduce", "hw4", "--quiet", "--out", "-"}, io.Discard, io.Discard))
	predicted := many - left.Load()
	stdout, stderr, code := interrupted("psim reproduce hw4 --quiet --out o", predicted+3)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stdout, "ddp=2")
	require.Equal(t, "psim: interrupted\n", stderr)
	require.NoDirExists(t, "o")
}

// What reads a result while a run replaces it sees the old or the new one.
func TestReadDuringSwap(t *testing.T) {
	userFolder(t)
	var saved [2][]files.File
	for i, name := range []string{"gpipe", "1f1b"} {
		_, stderr, code := psim(t, "psim run "+name+" --out "+name)
		require.Zero(t, code, stderr)
		for file, content := range contents(t, name) {
			saved[i] = append(saved[i], files.File{Path: file, Render: func(w io.Writer) error {
				_, err := io.WriteString(w, content)
				return err
			}})
		}
	}
	folder := reports.RunFolder("o", results.Predicted)
	require.NoError(t, folder.Write(context.Background(), saved[0]))
	ctx, cancel := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			if err := folder.Write(context.Background(), saved[n%2]); err != nil {
				t.Error(err)
			}
		}
	})
	defer writer.Wait()
	defer cancel()
	for range 300 {
		run, err := results.Load("o")
		require.NoError(t, err)
		require.NotNil(t, run.Trace)
		_, err = picture.LoadMemory("o/result.json")
		require.NoError(t, err)
	}
	for _, line := range []string{"psim compare o gpipe", "psim plot memory o", "psim plot timeline o"} {
		_, stderr, code := psim(t, line)
		require.Zero(t, code, stderr)
	}
}
