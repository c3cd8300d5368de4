package files_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/files"
)

// In a folder of all, such as /tmp, whoever may not replace a file changes none; and
// a folder keeps its owner, group and special bits.
func TestOthersFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	ctx, parent := context.Background(), t.TempDir()
	for path := parent; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		require.NoError(t, os.Chmod(path, 0o755))
	}
	shared, theirs := filepath.Join(parent, "shared"), filepath.Join(parent, "theirs")
	for folder, mode := range map[string]os.FileMode{shared: os.ModeSticky | 0o777, theirs: os.ModeSetgid | 0o775} {
		require.NoError(t, os.Mkdir(folder, 0o755))
		require.NoError(t, os.Chmod(folder, mode))
	}
	const nobody, group = 65534, 100
	require.NoError(t, os.Chown(theirs, nobody, group))
	require.NoError(t, os.Chmod(theirs, os.ModeSetgid|0o775))
	require.NoError(t, files.Folder{Path: shared, Owner: "run", Writes: ofVersions}.Write(ctx, version(1)))
	before, err := os.ReadDir(shared)
	require.NoError(t, err)

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, syscall.Setfsuid(nobody))
	err = files.Folder{Path: shared, Owner: "run", Writes: ofVersions}.Write(ctx, append(version(2), text("0.txt", "new")))
	require.NoError(t, syscall.Setfsuid(0))
	require.ErrorContains(t, err, "shared: cannot be written: operation not permitted")
	require.ErrorAs(t, err, new(files.Unwritable))
	after, err := os.ReadDir(shared)
	require.NoError(t, err)
	require.Equal(t, len(before), len(after))

	for n := range 2 {
		require.NoError(t, files.Folder{Path: theirs, Owner: "run", Writes: ofVersions}.Write(ctx, version(n)))
		info, err := os.Stat(theirs)
		require.NoError(t, err)
		owner := info.Sys().(*syscall.Stat_t)
		require.Equal(t, [2]uint32{nobody, group}, [2]uint32{owner.Uid, owner.Gid})
		require.Equal(t, os.ModeSetgid|0o775, info.Mode()&^os.ModeDir)
	}
}

// What is no file in the place of one is not waited for.
func TestPipes(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(folder, files.Manifest), 0o644))
	require.NoError(t, syscall.Mkfifo(filepath.Join(folder, "a.txt"), 0o644))
	_, err := files.Steady(folder, func() (int, error) { return 0, files.Verify(folder, "a.txt") })
	require.NoError(t, err)
	f := files.Folder{Path: folder, Owner: "run", Writes: ofVersions}
	require.ErrorContains(t, f.Write(context.Background(), version(1)), ".psim.json was not written by psim")
	require.NoError(t, os.Remove(filepath.Join(folder, files.Manifest)))
	require.ErrorContains(t, f.Write(context.Background(), version(1)), "a.txt is not a regular file")
}
