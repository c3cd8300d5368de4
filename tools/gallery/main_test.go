package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	lib "psim"
)

// The gallery is what the catalog says, with a picture for every schedule and no
// others; that psim draws them so, a test of its command says.
func TestGallery(t *testing.T) {
	text, traces, err := document()
	require.NoError(t, err)
	saved, err := os.ReadFile("../../docs/schedules.md")
	require.NoError(t, err)
	require.Equal(t, text, string(saved), "rewrite with: make gallery")
	pictures, err := filepath.Glob("../../docs/schedules/*.png")
	require.NoError(t, err)
	require.Len(t, pictures, len(traces), "a picture belongs to no schedule, or is missing")
	for _, picture := range pictures {
		require.Contains(t, traces, strings.TrimSuffix(filepath.Base(picture), ".png"))
	}
}

// docs/models.md shows every plan, and docs/plans has no other pictures.
func TestPlans(t *testing.T) {
	document, err := os.ReadFile("../../docs/models.md")
	require.NoError(t, err)
	pictures, err := filepath.Glob("../../docs/plans/*.png")
	require.NoError(t, err)
	require.Len(t, pictures, len(plans()), "draw with: make gallery")
	for _, p := range plans() {
		require.Contains(t, string(document), "(plans/"+p.name+".png)")
		_, err := lib.Load("plans/" + p.name)
		require.NoError(t, err)
	}
}
