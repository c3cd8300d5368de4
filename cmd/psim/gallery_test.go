package main

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	lib "psim"
	"psim/internal/wrap"
	"psim/reports"
	"psim/schedules"
	"psim/schedules/graph"
)

const galleryIntroduction = `# Schedules

<!-- Written by make gallery from the catalog (schedules/catalog.go). -->

Every schedule of ` + "`psim list schedules`" + `, drawn for P = 4 ranks and M = 8 microbatches
where it serves them: a row per rank, the number of the microbatch in every task.
A forward (F), an input gradient (I) and a weight gradient (W) take one unit of
time, a backward in one piece (B) two, messages none. Where a rank holds V
stages, or second copies, lighter colours tell them apart; 2F0 is the forward of
stage 2, microbatch 0.

The bubble is the idle share of the ranks' time, or what is said. In flight is how
many stage activations rank r holds at most, from the start of F to the end of
B or W. R is the number of microbatches per round, F&B the time of an overlapped
pair, T that of the step. The formulas hold for equal stages and free messages, W no
longer than F and I, and tests compare them with simulations as they stand here.

Where no schedule fits, ` + "`schedule.name = \"auto\"`" + ` searches for an order.
`

// TestGallery compares docs/schedules.md and its pictures with the catalog.
func TestGallery(t *testing.T) {
	docs, err := filepath.Abs("../../docs")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	var text strings.Builder
	text.WriteString(galleryIntroduction)
	for _, s := range schedules.Catalog() {
		shape := s.Example()
		command := galleryCommand(s, shape)
		_, stderr, code := psim(t, command)
		require.Zero(t, code, stderr)
		text.WriteString(galleryEntry(t, s, shape, command))
		checkPicture(t, s.Name+".png", filepath.Join(docs, "schedules", s.Name+".png"))
	}
	path := filepath.Join(docs, "schedules.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o644))
	}
	saved, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(saved), text.String(), "rewrite with: make gallery")

	pictures, err := filepath.Glob(filepath.Join(docs, "schedules", "*"))
	require.NoError(t, err)
	for _, picture := range pictures {
		name := strings.TrimSuffix(filepath.Base(picture), ".png")
		require.True(t, slices.Contains(schedules.Names(), name), "%s belongs to no schedule; remove it", picture)
	}
}

// galleryCommand draws a schedule.
func galleryCommand(s schedules.Schedule, shape graph.Shape) string {
	command := fmt.Sprintf("psim schedule %s --stages %d --microbatches %d", s.Name, shape.Ranks, shape.Microbatches)
	if s.Virtual {
		command += fmt.Sprintf(" --virtual %d", shape.Virtual)
	}
	return command + " --plot " + s.Name + ".png"
}

// galleryEntry is the section of a schedule.
func galleryEntry(t *testing.T, s schedules.Schedule, shape graph.Shape, command string) string {
	trace, err := lib.UnitTrace(s, shape)
	require.NoError(t, err)
	summary := graph.Summarize(trace)
	peak := 0
	for _, r := range summary.Ranks {
		peak = max(peak, r.PeakInFlight)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n![%s](schedules/%s.png)\n\n%s\n\n", s.Name, reports.UnitTitle(trace, lib.Unit), s.Name, wrap.Text(s.About, 84, ""))
	fmt.Fprintf(&b, "- Bubble: `%s`; here %.1f %%", s.Bubble, 100*summary.Bubble.Makespan)
	if summary.Bubble.Span != summary.Bubble.Makespan {
		fmt.Fprintf(&b, ", and %.1f %% of the longest span", 100*summary.Bubble.Span)
	}
	fmt.Fprintf(&b, ".\n")
	fmt.Fprintf(&b, "- In flight: `%s`; here at most %d.\n", s.Memory, peak)
	if s.Constraint != "" {
		fmt.Fprintf(&b, "- Needs: %s.\n", s.Constraint)
	}
	fmt.Fprintf(&b, "- Paper: %s.\n- Drawn by `%s`.\n", s.Paper, command)
	return b.String()
}

// checkPicture compares a drawn picture with the saved one, and checks that GitHub
// can show all of it.
func checkPicture(t *testing.T, drawn, saved string) {
	data, err := os.ReadFile(drawn)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(saved), 0o755))
		require.NoError(t, os.WriteFile(saved, data, 0o644))
	}
	size, err := png.DecodeConfig(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, 1800, size.Width)
	require.Less(t, len(data), 48_000, "%s should stay small", drawn)
	want, err := os.ReadFile(saved)
	require.NoError(t, err, "rewrite with: make gallery")
	require.True(t, samePicture(t, want, data), "%s differs from what psim draws; rewrite with: make gallery", saved)
}

// The verbose list says all that the catalog does.
func TestListSchedulesVerbose(t *testing.T) {
	stdout, stderr, code := psim(t, "psim list schedules --verbose")
	require.Zero(t, code, stderr)
	words := strings.Join(strings.Fields(stdout), " ")
	for _, s := range schedules.Catalog() {
		require.Contains(t, words, fmt.Sprintf("%s: %s %s bubble %s in flight %s ", s.Name, s.Summary, s.About, s.Bubble, s.Memory))
		require.Contains(t, words, " paper "+s.Paper+" ")
	}
	require.Contains(t, words, " ring-allgather ")
}
