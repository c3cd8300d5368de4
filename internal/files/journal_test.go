package files_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/files"
)

// A journal keeps whole lines, drops what a kill has cut off, and is of one process
// at a time.
func TestJournal(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(folder, "journal")
	j, lines, err := files.OpenJournal(path, "one")
	require.NoError(t, err)
	require.Empty(t, lines)
	require.NoError(t, j.Append([]byte("one")))
	require.NoError(t, j.Append([]byte("two")))
	_, _, err = files.OpenJournal(path, "one")
	require.ErrorIs(t, err, files.ErrBusy)
	require.EqualError(t, err, folder+": another psim is writing there; wait until it ends, or name another folder")
	require.NoError(t, j.Close())

	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, "thr"...), 0o666))
	j, lines, err = files.OpenJournal(path, "one")
	require.NoError(t, err)
	require.Equal(t, []files.Line{{Text: []byte("one")}, {Text: []byte("two")}}, lines)
	require.NoError(t, j.Append([]byte("three")))
	data, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, "^one\t[0-9a-f]{16}\ntwo\t[0-9a-f]{16}\nthree\t[0-9a-f]{16}\n$", string(data))
	require.NoError(t, j.Close())

	// A line that was changed, or has no checksum, is damaged.
	data = append(bytes.Replace(data, []byte("two"), []byte("ten"), 1), "four\n"...)
	require.NoError(t, os.WriteFile(path, data, 0o666))
	j, lines, err = files.OpenJournal(path, "one")
	require.NoError(t, err)
	require.Equal(t, []files.Line{
		{Text: []byte("one")}, {Text: []byte("ten"), Damaged: true}, {Text: []byte("three")}, {Text: []byte("four"), Damaged: true},
	}, lines)
	require.NoError(t, j.Remove())
	require.NoFileExists(t, path)

	j, _, err = files.OpenJournal(filepath.Join(folder, "c", "journal"), "one")
	require.NoError(t, err)
	require.NoError(t, j.Remove())
	require.NoDirExists(t, filepath.Join(folder, "c"))

	for _, foreign := range []string{"mine", "mine\n", "on my list\nand more", "on\n"} {
		require.NoError(t, os.WriteFile(path, []byte(foreign), 0o666))
		_, _, err = files.OpenJournal(path, "one")
		require.ErrorIs(t, err, files.ErrForeignJournal)
		data, err = os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, foreign, string(data), "not a byte is lost")
	}
	require.NoError(t, os.WriteFile(path, []byte("on"), 0o666))
	j, lines, err = files.OpenJournal(path, "one")
	require.NoError(t, err)
	require.Empty(t, lines)
	require.NoError(t, j.Remove())
	require.NoError(t, os.WriteFile(path, nil, 0o666))
	_, _, err = files.OpenJournal(filepath.Join(path, "journal"), "one")
	require.ErrorAs(t, err, new(files.Unwritable))
}
