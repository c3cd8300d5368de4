package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The document shows the pictures that are written beside it, as for docs/accuracy.md.
func TestPublishedPictures(t *testing.T) {
	t.Chdir(t.TempDir())
	stdout, stderr, code := psim(t, "psim validate --published --markdown --out accuracy zero-bubble-2023-table-5")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "](accuracy/zero-bubble-bubbles.png)")
	pictures, err := os.ReadDir("accuracy")
	require.NoError(t, err)
	require.Len(t, pictures, 1)
	require.Equal(t, "zero-bubble-bubbles.png", pictures[0].Name())
}
