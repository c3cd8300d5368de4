package validation

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec"
	"psim/exec/session"
	"psim/internal/files"
)

// example is a report of two rows: one of a single step, which has no deviation, on a
// disturbed machine.
func example() *Report {
	r := &Report{Machine: "a processor", Devices: 1, Rows: []Row{
		{Model: "gpt-6x192", Schedule: "model-parallel", Microbatches: 2, Predicted: 0.783, Measured: 0.772, Deviation: 0.0266, Steps: 9, Error: -0.015, Runs: 3},
		{Model: "mlp-16x640", Schedule: "gpipe", Microbatches: 8, Predicted: 0.272, Measured: 0.28, Steps: 1, Error: 0.028, BubbleError: -0.007, PredictedPeak: 10, Peak: 8, Runs: 1, Disturbed: true},
	}}
	r.summarize()
	return r
}

func ExampleReport_WriteText() {
	example().WriteText(os.Stdout)
	// Output:
	// 1 device of a processor
	//
	// model       schedule         M  predicted            measured     error  bubble off by  peak off by  runs
	// gpt-6x192   model-parallel   2     783 ms    772 ms ± 26.6 ms    −1.5 %     0.0 points          0 B     3
	// mlp-16x640  gpipe            8     272 ms              280 ms    +2.8 %    −0.7 points         −2 B    1*
	//
	// step time: median error 2.1 %, worst 2.8 %; bubble: at worst 0.7 points; peak memory to the byte in 1 of 2
	// runs: how often an experiment was run until the machine was not disturbed; the least disturbed counts (*: all were)
}

func TestMarkdown(t *testing.T) {
	var markdown strings.Builder
	require.NoError(t, example().WriteMarkdown(&markdown))
	require.Contains(t, markdown.String(), "| 772 ms ± 26.6 ms | −1.5 % |")
	require.Contains(t, markdown.String(), "| 280 ms | +2.8 % |")
	require.Contains(t, markdown.String(), "was run on 1 device. Made")
}

// The experiments that were finished before an interrupt are printed, and that they
// are not all.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	o := Options{Devices: 2, Sets: []string{"model.hidden=16", "model.heads=2", "model.vocab=32", "model.sequence_length=8", "model.layers=2", "batch.global=8"}}
	o.Options = session.Options{Seed: 1390, MeasureOptions: exec.MeasureOptions{
		Devices: exec.DeviceOptions{Backend: "go", Oversubscribe: true}, TrainOptions: exec.TrainOptions{Warmup: 1, Steps: 1}, Repeats: 1,
		Stage: func(what string) {
			if strings.HasPrefix(what, "gpipe: step 1 of") {
				cancel()
			}
		},
	}}
	r, err := Run(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, r.Rows, 1)
	require.True(t, r.Partial)
	require.Equal(t, "model-parallel", r.Rows[0].Schedule)
	for _, write := range []func(io.Writer) error{r.WriteText, r.WriteMarkdown} {
		var out strings.Builder
		require.NoError(t, write(&out))
		require.Contains(t, out.String(), "\nEnded early, after 1 of 18 experiments.\n")
	}
	var out strings.Builder
	require.NoError(t, files.WriteJSON(&out, r))
	require.Contains(t, out.String(), `"partial": true`)
}
