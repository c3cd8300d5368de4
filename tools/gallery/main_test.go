package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	lib "psim"
	"psim/internal/units"
	"psim/reports"
	"psim/results"
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

// The README's output of psim exec is of the recorded run. Its table has the median step, which the
// pictures show, next to the mean.
func TestRecorded(t *testing.T) {
	_, measured, err := results.LoadPair("testdata/exec")
	require.NoError(t, err)
	var table bytes.Buffer
	require.NoError(t, reports.WriteRuns(&table, measured.Result.Runs))
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), table.String())
	shown := units.FormatSeconds(measured.Trace.End().Seconds())
	require.Equal(t, units.FormatSeconds(measured.Result.StepTimeMedian), shown)
	require.Regexp(t, `(?m)^  1f1b .* ms ± .* ms +`+shown+` `, table.String())
}
