package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAccuracy makes docs/accuracy.md and its pictures anew, as make accuracy
// does, and compares.
func TestAccuracy(t *testing.T) {
	docs, err := filepath.Abs("../../docs")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	stdout, stderr, code := psim(t, "psim validate --published --markdown --out accuracy")
	require.Zero(t, code, stderr)
	require.NoError(t, os.WriteFile("accuracy.md", []byte(stdout), 0o644))
	if *update {
		require.NoError(t, os.RemoveAll(filepath.Join(docs, "accuracy")))
		require.NoError(t, os.CopyFS(filepath.Join(docs, "accuracy"), os.DirFS("accuracy")))
		require.NoError(t, os.WriteFile(filepath.Join(docs, "accuracy.md"), []byte(stdout), 0o644))
		return
	}
	text, err := os.ReadFile(filepath.Join(docs, "accuracy.md"))
	require.NoError(t, err)
	require.Equal(t, string(text), stdout, "rewrite with: make accuracy")
	committed, made := contents(t, filepath.Join(docs, "accuracy")), contents(t, "accuracy")
	require.NotEmpty(t, made)
	require.Equal(t, len(made), len(committed), "a picture of docs/accuracy is no longer drawn, or is missing")
	for name, data := range made {
		require.True(t, committed[name] == data, "docs/accuracy/%s differs from what psim draws; rewrite with: make accuracy", name)
	}
}
