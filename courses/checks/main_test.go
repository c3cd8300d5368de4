package main

import (
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
)

// Devices share one core, so that psim does not probe how steady the machine is: no check
// reads a time.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// The eight checks pass with a small VGG of the same layers. Its first loss is that of ten
// equally likely classes.
func TestSmall(t *testing.T) {
	var told []string
	devices := backend.Options{Backend: "go", Oversubscribe: true}
	for preset, ways := range map[string]string{"vgg-mini": "ddp fsdp", "vgg-mini-pipeline": "model pipeline"} {
		for _, way := range strings.Fields(ways) {
			for _, rate := range []string{"1e-2", "1e-3"} {
				r := row{config: "vgg16-cpu-" + way, rate: rate}
				require.NoError(t, r.check(t.Context(), devices, func(s string) { told = append(told, s) }, []string{"model.preset=" + preset, "batch.global=16"}))
				require.True(t, r.Passed)
				require.InEpsilon(t, math.Log(10), *r.LossFirst, 0.01)
				require.Less(t, *r.LossLast, *r.LossFirst)
				if way != "model" {
					require.Positive(t, *r.Gradients, "a sum in another order, as two workers make it")
				}
			}
		}
	}
	require.Contains(t, told, "vgg16-cpu-fsdp at 1e-3: ddp: unsplit, to compare with: step 3 of 3")
}

// A check that fails is an error, and so is a check that cannot run.
func TestFailing(t *testing.T) {
	devices := backend.Options{Backend: "go", Oversubscribe: true}
	r := row{config: "vgg16-cpu-ddp", rate: "500"}
	require.ErrorContains(t, r.check(t.Context(), devices, func(string) {}, []string{"model.preset=vgg-mini", "batch.global=16"}), "a check failed: ")
	_, err := run(t.Context(), devices, func(string) {}, "model.preset=gpt3")
	require.ErrorContains(t, err, "vgg16-cpu-pipeline at 1e-3: ")
}

// The document has the text of this command, and eight rows that all passed.
func TestDocument(t *testing.T) {
	saved, err := os.ReadFile("../../docs/course-checks.md")
	require.NoError(t, err)
	require.Equal(t, 8, strings.Count(string(saved), "| true |\n"))
	require.NotContains(t, string(saved), "| false |")
	ours, theirs := strings.SplitAfter(document(nil), "\n"), strings.SplitAfter(string(saved), "\n")
	for _, line := range ours {
		if !strings.HasPrefix(line, "on ") { // the processor
			require.Contains(t, theirs, line, "rewrite with: make course-checks")
		}
	}
}
