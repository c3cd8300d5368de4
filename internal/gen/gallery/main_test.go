package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The gallery is what the catalog says, with a picture for every schedule and no
// others; that psim draws them so, a test of its command says.
func TestGallery(t *testing.T) {
	text, traces, err := document()
	require.NoError(t, err)
	saved, err := os.ReadFile("../../../docs/schedules.md")
	require.NoError(t, err)
	require.Equal(t, text, string(saved), "rewrite with: make gallery")
	pictures, err := filepath.Glob("../../../docs/schedules/*.png")
	require.NoError(t, err)
	require.Len(t, pictures, len(traces), "a picture belongs to no schedule, or is missing")
	for _, picture := range pictures {
		require.Contains(t, traces, strings.TrimSuffix(filepath.Base(picture), ".png"))
	}
}
