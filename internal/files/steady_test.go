package files_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/files"
)

// A reader sees the files of one version, whichever way they are replaced.
func TestSteady(t *testing.T) {
	{
		folder := filepath.Join(t.TempDir(), "o")
		f := files.Folder{Path: folder, Owner: "run", Writes: ofVersions}
		require.NoError(t, f.Write(context.Background(), version(0)))
		ctx, cancel := context.WithCancel(context.Background())
		var writer sync.WaitGroup
		writer.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				if err := f.Write(context.Background(), version(n)); err != nil {
					t.Error(err)
				}
			}
		})
		stop := func() { cancel(); writer.Wait() }
		defer stop()
		for range 300 {
			seen, err := files.Steady(filepath.Join(folder, "in"), func() (string, error) {
				var seen []string
				for _, file := range version(1) {
					data, err := os.ReadFile(filepath.Join(folder, file.Path))
					if err != nil {
						return "", err
					}
					seen = append(seen, string(data))
				}
				return strings.Join(seen, " "), nil
			})
			if err == nil {
				n, _, _ := strings.Cut(seen, " ")
				require.Equal(t, fmt.Sprintf("%[1]s %[1]s %[1]s", n), seen)
			}
			require.NoError(t, err)
		}
		stop()
	}
}

// If a write fails in the middle, here because of a name that no file can have, what
// was there stays, and nothing is left.
func TestWriteFails(t *testing.T) {
	ctx := context.Background()
	for range 2 {
		parent := t.TempDir()
		f := files.Folder{Path: filepath.Join(parent, "o"), Owner: "run", Writes: ofVersions}
		long := strings.Repeat("x", 300)
		for _, broken := range []string{long, "in/" + long, long + "/a"} {
			list := append(version(2), text(broken, ""))
			require.ErrorContains(t, f.Write(ctx, list), "o: cannot be written: file name too long")
			require.NoDirExists(t, f.Path)
		}
		require.NoError(t, f.Write(ctx, version(1)))
		require.NoError(t, os.WriteFile(filepath.Join(f.Path, "mine.txt"), []byte("mine"), 0o644))
		require.Error(t, f.Write(ctx, append(version(2), text(long, ""))))
		require.Error(t, f.Write(ctx, version(1), text(filepath.Join(parent, "t.json"), ""), text(filepath.Join(parent, "none", "t.json"), "")))
		requireWhole(t, f.Path)
		entries, err := os.ReadDir(parent)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
}

// Several that begin at once, none of which finds the folder, leave one whole result.
func TestTogether(t *testing.T) {
	for range 20 {
		parent := t.TempDir()
		var writers sync.WaitGroup
		for n := range 4 {
			writers.Go(func() {
				f := files.Folder{Path: filepath.Join(parent, "a", "o"), Owner: "run", Writes: ofVersions}
				if err := f.Check(); err != nil {
					t.Error(err)
				}
				if err := f.Write(context.Background(), version(n)); err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		require.NoError(t, os.WriteFile(filepath.Join(parent, "a", "o", "mine.txt"), []byte("mine"), 0o644))
		requireWhole(t, filepath.Join(parent, "a", "o"))
		entries, err := os.ReadDir(filepath.Join(parent, "a"))
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
}
