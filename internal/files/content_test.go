package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// long renders more than fits in memory, in pieces of different lengths.
func long(w io.Writer) error {
	for i := range 3 * mostInMemory / 1000 {
		if _, err := w.Write(bytes.Repeat([]byte{byte(i)}, 500+i%1000)); err != nil {
			return err
		}
	}
	return nil
}

// Long files are as they were rendered, in a folder and elsewhere, and nothing is left beside them.
func TestLongFiles(t *testing.T) {
	var want bytes.Buffer
	require.NoError(t, long(&want))
	at := t.TempDir()
	f := Folder{Path: filepath.Join(at, "made", "o"), Owner: "run"}
	for range 2 { // and again, with the same bytes
		require.NoError(t, f.Write(t.Context(), []File{{"in/a", long}}, File{filepath.Join(at, "b"), long}))
		for _, name := range []string{filepath.Join(f.Path, "in", "a"), filepath.Join(at, "b")} {
			got, err := os.ReadFile(name)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want.Bytes(), got), name)
		}
		require.NoError(t, Verify(f.Path, "in/a"))
		left, err := os.ReadDir(at)
		require.NoError(t, err)
		require.Len(t, left, 2)
	}
}

// A long file that fails, or whose command is interrupted meanwhile, leaves nothing.
func TestLongFileFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	for _, ends := range []func() error{
		func() error { return errors.New("no") },
		func() error { cancel(); return nil },
	} {
		at, after := t.TempDir(), 0
		err := Folder{Path: filepath.Join(at, "o"), Owner: "run"}.Write(ctx, []File{{"a", func(w io.Writer) error {
			if err := long(w); err != nil {
				return err
			}
			if err := ends(); err != nil {
				return err
			}
			_, err := w.Write([]byte{1})
			after++
			return err
		}}})
		require.Error(t, err)
		require.Equal(t, ctx.Err() != nil, errors.Is(err, context.Canceled) && after == 1)
		left, err := os.ReadDir(at)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
