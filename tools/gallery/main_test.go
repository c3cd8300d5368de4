package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	lib "psim"
	"psim/internal/units"
	"psim/reports"
	"psim/results"
	"psim/schedules/graph"
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

// The README's output of psim exec is of the recorded run. Its step times, errors and bubbles are of
// the median step, which the pictures show; the mean is in a column of its own.
func TestRecorded(t *testing.T) {
	var runs []results.Run
	for _, name := range []string{"model-parallel", "gpipe", "1f1b"} {
		_, measured, err := results.LoadPair("testdata/exec/" + name)
		require.NoError(t, err)
		runs = append(runs, measured)
	}
	var table bytes.Buffer
	require.NoError(t, reports.WriteRuns(&table, runs))
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), table.String())
	for _, r := range runs {
		name, shown, before := r.Result.Schedule, r.Trace.End().Seconds(), r.Result.Predicted.StepTime
		require.Equal(t, r.Result.StepTimeMedian, shown)
		off := units.FormatSignedPercent(shown/before - 1)
		bubble := units.FormatPercent(graph.Summarize(r.Trace).Bubble.Makespan)
		line := fmt.Sprintf(`(?m)^  %s +%s +%s +%s +\S+ ms ± .* %s +\d+`, name, units.FormatSeconds(before),
			units.FormatSeconds(shown), regexp.QuoteMeta(off), bubble)
		require.Regexp(t, line, table.String())
		require.Regexp(t, `(?m)^  `+name+` .* `+regexp.QuoteMeta(off)+`$`, table.String(), "its parts add up to the error")
	}
}
