package files_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/files"
)

// text is a file with some content.
func text(path, content string) files.File {
	return files.File{Path: path, Render: func(w io.Writer) error { _, err := io.WriteString(w, content); return err }}
}

// A later run replaces the files of an earlier one, and removes those that it does
// not write again.
func ExampleFolder() {
	folder, err := os.MkdirTemp("", "files")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	f := files.Folder{Path: folder, Owner: "run", Writes: ofVersions}
	for _, list := range [][]files.File{{text("a.txt", "1"), text("in/b.txt", "1")}, {text("a.txt", "2")}} {
		if err := f.Write(context.Background(), list); err != nil {
			panic(err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(folder, "[a-z]*"))
	data, err := os.ReadFile(filepath.Join(folder, "a.txt"))
	fmt.Println(len(left), string(data), err)
	// Output: 1 2 <nil>
}

// If one file fails nothing is written, no folder is left, and what was there stays.
func TestAllOrNothing(t *testing.T) {
	ctx := context.Background()
	write := func(ctx context.Context, list ...files.File) error {
		return files.Folder{}.Write(ctx, nil, list...)
	}
	folder := t.TempDir()
	old := filepath.Join(folder, "old.txt")
	require.NoError(t, os.WriteFile(old, []byte("old"), 0o644))
	broken := files.File{Path: filepath.Join(folder, "broken"), Render: func(io.Writer) error { return errors.New("no picture") }}
	err := write(ctx, text(old, "new"), broken)
	require.EqualError(t, err, broken.Path+": no picture")
	require.NoError(t, os.Mkdir(broken.Path, 0o755))
	err = write(ctx, text(old, "new"), broken)
	require.EqualError(t, err, broken.Path+": cannot be written: a folder of that name is in the way")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, write(cancelled, text(old, "new")), context.Canceled)
	data, err := os.ReadFile(old)
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

// Check leaves no trace, and refuses what psim has not written.
func TestCheck(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	f := files.Folder{Path: folder, Guarded: []string{"mine.txt"}}
	require.NoError(t, f.Check())
	require.NoDirExists(t, filepath.Dir(folder))
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "mine.txt"), nil, 0o644))
	require.EqualError(t, f.Check(), folder+": mine.txt was not written by psim; name another folder, or replace it with --overwrite")
	f.Guarded = []string{"mine.txt/a/b.txt"}
	require.EqualError(t, f.Check(), folder+": mine.txt/a/b.txt is below a link or a file; name another folder")
	f.Guarded = []string{"mine.txt"}
	f.Overwrite = true
	require.NoError(t, f.Check())
	f.Path = filepath.Join(folder, "mine.txt")
	require.EqualError(t, files.Folder{Path: f.Path}.Check(), f.Path+": is a file; name a folder")
}

func TestRead(t *testing.T) {
	folder := t.TempDir()
	_, err := files.Read(filepath.Join(folder, "nowhere"), io.ReadAll)
	require.True(t, os.IsNotExist(err))
	_, err = files.Read(folder, io.ReadAll)
	require.EqualError(t, err, folder+": is not a regular file")
	path := filepath.Join(folder, "x")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o644))
	_, err = files.Read(path, func(io.Reader) (int, error) { return 0, errors.New("not a number") })
	require.EqualError(t, err, path+": not a number")
	require.True(t, files.Same(path, filepath.Join(folder, ".", "x")) && !files.Same("", ""))
}

// A byte order mark is no part of a file; half of one is.
func TestReadMarked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	for text, want := range map[string]string{"\ufeff{}": "{}", "\ufeff": "", "\xef\xbb": "\xef\xbb", "{}": "{}", "": ""} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := files.Read(path, io.ReadAll)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}
