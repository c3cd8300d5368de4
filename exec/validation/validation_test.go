package validation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/exectest"
	"psim/exec/measure"
	"psim/exec/session"
	"psim/exec/train"
	"psim/internal/files"
	"psim/results"
)

// example returns a report of two rows: one of a single step, which has no deviation, on a
// disturbed machine.
func example() *ExecutedReport {
	r := &ExecutedReport{Machine: "a processor", Devices: 1, Rows: []ExecutedRow{
		{Model: "gpt-6x192", Example: "exec", Kind: "model-parallel", Microbatches: 2, Predicted: 0.783,
			Measured: 0.772, Deviation: 0.0266, Steps: 9, Error: -0.015, Errors: []float64{-0.02, -0.015, 0.01},
			Makespan: 0.7},
		{Model: "mlp-16x640", Example: "exec-mlp", Kind: "gpipe", Microbatches: 8, Predicted: 0.272, Measured: 0.28,
			Steps: 1, Error: 0.028, Errors: []float64{0.028}, BubbleError: -0.007, PredictedPeak: 10, Peak: 8,
			Disturbed: true},
	}}
	r.summarize()
	return r
}

func ExampleExecutedReport_WriteText() {
	example().WriteText(os.Stdout)
	// Output:
	// 1 device of a processor
	//
	// model       schedule            M  predicted            measured     error  bubble off by  peak off by  runs
	// gpt-6x192   model-parallel      2     783 ms    772 ms ± 26.6 ms    −1.5 %     0.0 points          0 B     3
	// mlp-16x640  gpipe               8     272 ms              280 ms    +2.8 %    −0.7 points         −2 B    1*
	//
	// step time: median error 2.1 %, worst 2.8 %; bubble: at worst 0.7 points; peak memory to the byte in 1 of 2
	// runs: how often an experiment was run; that of the median error counts (*: the machine was disturbed meanwhile)
}

func TestMarkdown(t *testing.T) {
	var markdown strings.Builder
	require.NoError(t, example().WriteMarkdown(&markdown))
	require.Contains(t, markdown.String(), "| 772 ms ± 26.6 ms | −1.5 % | −2.0 %, −1.5 %, +1.0 % | 3 |")
	require.Contains(t, markdown.String(), "| 280 ms | +2.8 % |  | 1* |")
	require.Contains(t, markdown.String(), "was run on 1 device. Made by")
	require.Contains(t, markdown.String(), "--markdown > docs/executed.md\n")
	markdown.Reset()
	r := example()
	r.Flags = " --backend xla"
	require.NoError(t, r.WriteMarkdown(&markdown))
	require.Contains(t, markdown.String(), "go run -tags xla ./cmd/psim validate --executed --markdown --backend xla > docs/executed-xla.md\n")
}

// After an interrupt the finished experiments are printed, with a note that there are more.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	o := Options{Devices: 2, Runs: 1, Sets: []string{
		"model.hidden=16", "model.heads=2", "model.vocab=32", "model.sequence_length=8", "model.layers=2",
		"batch.global=8",
	}}
	o.Session = session.Options{Seed: 1390, Measure: measure.Options{
		Devices: exectest.Options(), Train: train.Options{Warmup: 1, Steps: 1},
		Repeats: 1,
		Stage: func(what string) {
			if strings.HasPrefix(what, "exec, run 1 of 1: gpipe: step 1 of") {
				cancel()
			}
		},
	}}
	r, err := Run(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, r.Rows, 1)
	require.True(t, r.Partial)
	require.Equal(t, "model-parallel", r.Rows[0].Kind)
	for _, write := range []func(io.Writer) error{r.WriteText, r.WriteMarkdown} {
		var out strings.Builder
		require.NoError(t, write(&out))
		require.Contains(t, out.String(), fmt.Sprintf("\nEnded early, after 1 of %d runs.\n", r.Chosen))
	}
	var out strings.Builder
	require.NoError(t, files.WriteJSON(&out, r))
	require.Contains(t, out.String(), `"partial": true`)
}

// An experiment is run as often as asked for, and the run with the median error counts. Runs in
// a journal are not repeated; a journal with other options is refused.
func TestResume(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	result := func(measured float64) results.Result {
		predicted := results.Result{StepTime: 1}
		return results.Result{StepTime: measured, Predicted: &predicted,
			Measurement: &results.Measurement{StepTimeMedian: measured, Steps: []float64{measured}}}
	}
	runs, times := 0, []float64{1.3, 1.1, 1.2} // by round
	o := Options{Devices: 2, Runs: 3, Names: []string{"processes", "exec-mlp"}, Journal: path}
	o.overProcesses = func(_ context.Context, e experiment, sets []string) (results.Result, error) {
		require.Equal(t, []any{"exec-mlp", 2}, []any{e.model, e.processes})
		runs++
		if runs == 8 {
			return results.Result{}, errors.New("no more")
		}
		return result(times[(runs-1)/3%3]), nil
	}
	r, err := Run(t.Context(), o)
	require.EqualError(t, err, "ddp, 2 processes: no more")
	require.Len(t, r.Rows, 3, "once each before any again")
	require.InDelta(t, 0.2, r.Rows[0].Error, 1e-9)
	require.InDeltaSlice(t, []float64{0.1, 0.2, 0.3}, r.Rows[0].Errors, 1e-9)
	require.Len(t, r.Rows[1].Errors, 2)
	require.Contains(t, r.ended(), "after 7 of 9 runs")

	again, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 8+2, runs, "one failed")
	require.Equal(t, r.Rows[0], again.Rows[0])
	require.Len(t, again.Rows, 3)
	require.Len(t, again.Rows[2].Errors, 3)

	text, err := os.ReadFile(path) // a changed number is not believed
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(text, []byte(`"error":0.`), []byte(`"error":0.9`), 1), 0o644))
	var warned string
	o.Warn = func(warning string) { warned = warning }
	again, err = Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 8+2+1, runs, "one is run again")
	require.Equal(t, "1 line in "+path+" cannot be trusted; the experiments are run again", warned)
	require.Less(t, again.Rows[0].Errors[2], 0.9)

	o.Flags = " --steps 2"
	_, err = Run(t.Context(), o)
	require.ErrorContains(t, err, ", with the usual options; these are of 2 devices on ")
	require.NoError(t, os.WriteFile(path, []byte("{}\n"), 0o644))
	_, err = Run(t.Context(), o)
	require.ErrorIs(t, err, files.ErrForeignJournal)
}

// Examples and kinds are selected by name, and so are experiments over processes.
func TestChoose(t *testing.T) {
	count := func(names ...string) int {
		list, err := choose(names)
		require.NoError(t, err)
		return len(list)
	}
	require.GreaterOrEqual(t, count(), 30)
	require.Equal(t, count(), count("exec")+count("exec-mlp"))
	require.Equal(t, 2, count("fsdp-gloo"))
	require.Equal(t, 3, count("exec", "processes"))
	require.Equal(t, 3+3, count("exec", "gpipe", "1f1b"))
	_, err := choose([]string{"gpip"})
	require.ErrorContains(t, err, `unknown experiments "gpip"`)
}
