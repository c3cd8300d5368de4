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
	require.Len(t, contents(t, "accuracy"), 1)
	require.NoError(t, os.RemoveAll("accuracy"))
	require.NoError(t, os.Mkdir("accuracy", 0o755))
	require.NoError(t, os.WriteFile("accuracy/zero-bubble-bubbles.png", []byte("mine"), 0o644))
	_, stderr, code = psim(t, "psim validate --published --out accuracy zero-bubble-2023-table-5")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "holds zero-bubble-bubbles.png, which psim has not written")
	require.Equal(t, "mine", contents(t, "accuracy")["zero-bubble-bubbles.png"])
}
