package e2e

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules"
)

var drawnBy = regexp.MustCompile("Drawn by `(psim schedule ([^ ]+) .*)`")

// TestGallery runs the commands of docs/schedules.md and compares the drawn pictures with those of the
// document.
func TestGallery(t *testing.T) {
	t.Parallel()
	docs := filepath.Join(root(t), "docs")
	text, err := os.ReadFile(filepath.Join(docs, "schedules.md"))
	require.NoError(t, err)
	u := newUser(t)
	commands := drawnBy.FindAllStringSubmatch(string(text), -1)
	require.Len(t, commands, len(schedules.Catalog()))
	for _, c := range commands {
		_, stderr, code := u.psim(t, c[1])
		require.Zero(t, code, stderr)
		checkPicture(t, u.path(c[2]+".png"), filepath.Join(docs, "schedules", c[2]+".png"))
	}
}

// checkPicture compares a drawn picture with the saved one, and checks that GitHub
// can show all of it.
func checkPicture(t *testing.T, drawn, saved string) {
	data, err := os.ReadFile(drawn)
	require.NoError(t, err)
	size, err := png.DecodeConfig(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, 1872, size.Width)
	require.Less(t, len(data), 96_000, "%s should stay small", drawn)
	want, err := os.ReadFile(saved)
	require.NoError(t, err, "rewrite with: make gallery")
	require.True(t, samePicture(t, want, data), "%s differs from what psim draws; rewrite with: make gallery", saved)
}
