package files_test

import (
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
	require.ErrorIs(t, err, files.ErrJournalBusy)
	require.EqualError(t, err, folder+": another psim is writing there")
	require.NoError(t, j.Close())

	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, "thr"...), 0o666))
	j, lines, err = files.OpenJournal(path, "one")
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("one"), []byte("two")}, lines)
	require.NoError(t, j.Append([]byte("three")))
	data, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\nthree\n", string(data))
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
