package files_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/files"
)

// Whatever a manifest lists, nothing outside its folder is changed, and a later run
// leaves its own files whole.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"sets": {"run": {"files": {"a.txt": "x", "../outside.txt": "y", "/etc/passwd": "z", "in/c.txt": ""}}}}`))
	f.Add([]byte(`{"sets": {"exec": {"partial": true, "files": {".": "", "in": "", "..": "", "in/../../outside.txt": ""}}}}`))
	f.Add([]byte(`{"sets": {"run": {"files": {".psim.json": "", ".psim-new/a": "", "a.txt/b": ""}}, "": {}}}`))
	f.Add([]byte(`{"sets": {"ran": {"files": {"a.txt": "x", "in/b.txt": ""}}}}`))
	f.Fuzz(func(t *testing.T, manifest []byte) {
		parent := t.TempDir()
		folder, outside := filepath.Join(parent, "o"), filepath.Join(parent, "outside.txt")
		require.NoError(t, os.MkdirAll(filepath.Join(folder, "in"), 0o755))
		require.NoError(t, os.WriteFile(outside, []byte("mine"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(folder, files.Manifest), manifest, 0o644))
		for _, named := range []bool{false, true} {
			run := files.Folder{Path: folder, Owner: "run", Writes: ofVersions, Named: named}
			if run.Write(context.Background(), version(2)) == nil {
				require.NoError(t, files.Verify(folder, "a.txt", "in/b.txt", "result.json", "even.txt"))
				data, err := os.ReadFile(filepath.Join(folder, "in", "b.txt"))
				require.NoError(t, err)
				require.Equal(t, "2", string(data))
			}
		}
		data, err := os.ReadFile(outside)
		require.NoError(t, err)
		require.Equal(t, "mine", string(data))
		entries, err := os.ReadDir(parent)
		require.NoError(t, err)
		require.Len(t, entries, 2)
	})
}
