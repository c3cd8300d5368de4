package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/cmd/psim/cli"
	"psim/internal/files"
	"psim/reports"
	"psim/reports/picture"
	"psim/results"
)

// An asked context ends once it has been asked a number of times whether it has ended.
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

// askedVariable is the variable that makes the test's binary run psim, interrupted at the question with
// this number, or before it begins with 0.
const askedVariable = "PSIM_TEST_ASKED"

// runAsked runs the command line with such a context, and returns the exit code.
func runAsked(text string) int {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if n == 0 {
		cancel()
	}
	return cli.Run(newAsked(ctx, n, cancel), os.Args[1:], os.Stdout, os.Stderr)
}

func newAsked(ctx context.Context, n int64, end context.CancelFunc) asked {
	left := new(atomic.Int64)
	left.Store(n)
	return asked{ctx, left, end}
}

// interrupted runs a command that is interrupted at the n-th question.
func (u user) interrupted(t *testing.T, line string, n int64) (stdout, stderr string, code int) {
	t.Helper()
	u.environment = append(slices.Clone(u.environment), fmt.Sprint(askedVariable, "=", n))
	return u.psim(t, line)
}

// An interrupt at any moment leaves an earlier result as it was. The results until then are printed,
// marked as partial, and saved in a folder next to the earlier result, which is named; or in the
// folder itself, if it had no result.
func TestInterruptedAnywhere(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"psim exec mlp.toml" + untimed + " --steps 3 --repeats 1", "result.json"},
		{"psim search auto.toml", "plans.json"},
	} {
		t.Run(strings.Fields(c[0])[1], func(t *testing.T) {
			t.Parallel()
			interruptAnywhere(t, c[0], c[1])
		})
	}
}

// interruptAnywhere interrupts a command that saves a file, at moments each twice as late as the
// one before.
func interruptAnywhere(t *testing.T, line, saved string) {
	u := mlpUser(t)
	u.write(t, "auto.toml", autoTimes(t))
	verb := strings.Fields(line)[1]
	_, stderr, code := u.psim(t, line+" --quiet --out "+verb)
	require.Zero(t, code, stderr)
	before, partial := u.tree(t, verb), 0
	for n := int64(1); n == 1 || code != exitDone; n *= 2 {
		for _, folder := range []string{fmt.Sprint(verb, n), verb} {
			var stdout string
			stdout, stderr, code = u.interrupted(t, line+" --out "+folder, n)
			if code == exitDone {
				continue
			}
			require.True(t, strings.HasSuffix(stderr, "psim: interrupted\n"), stderr)
			require.Equal(t, before, u.tree(t, verb))
			if stdout == "" {
				require.NoDirExists(t, u.path(fmt.Sprint(verb, n)))
				continue
			}
			partial++
			if folder == verb {
				folder += ".partial"
			}
			require.Contains(t, stderr, "until the interrupt, in "+folder+"\n")
			require.Contains(t, u.read(t, folder+"/"+saved), `"partial": true`)
		}
	}
	require.Positive(t, partial)
}

// Predictions of a course that are interrupted while they are drawn leave no file.
func TestReproduceInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const many = 1 << 40
	whole := newAsked(ctx, many, cancel)
	require.Zero(t, cli.Run(whole, []string{"reproduce", "hw4", "--quiet", "--out", "-"}, io.Discard, io.Discard))
	predicted := many - whole.left.Load()
	u := newUser(t)
	stdout, stderr, code := u.interrupted(t, "psim reproduce hw4 --quiet --out o", predicted+3)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stdout, "ddp=2")
	require.Equal(t, "psim: interrupted\n", stderr)
	require.NoDirExists(t, u.path("o"))
}

// What reads a result while a run replaces it sees the old or the new one.
func TestReadDuringSwap(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	var saved [2][]files.File
	for i, name := range []string{"gpipe", "1f1b"} {
		_, stderr, code := u.psim(t, "psim run "+name+" --out "+name)
		require.Zero(t, code, stderr)
		for file, content := range u.contents(t, name) {
			saved[i] = append(saved[i], files.File{Path: file, Render: func(w io.Writer) error {
				_, err := io.WriteString(w, content)
				return err
			}})
		}
	}
	folder := reports.RunFolder(u.path("o"), results.Predicted)
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
	for range 100 {
		run, err := results.Load(u.path("o"))
		require.NoError(t, err)
		require.NotNil(t, run.Trace)
		_, err = picture.LoadMemory(u.path("o/result.json"), nil)
		require.NoError(t, err)
	}
	for _, line := range []string{"psim compare o gpipe", "psim plot memory o", "psim plot timeline o"} {
		_, stderr, code := u.psim(t, line)
		require.Zero(t, code, stderr)
	}
}
