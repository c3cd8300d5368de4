package published

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fitted rate gives the epoch it was fitted to, and so does a fitted host.
func TestCourseFits(t *testing.T) {
	run := courseRun{schedule: "model-parallel", device: "v100-32gb-sxm", batch: 96, microbatches: 1}
	require.NoError(t, run.fitRate(50))
	seconds, err := run.epoch()
	require.NoError(t, err)
	require.InEpsilon(t, 50, seconds, 1e-3)

	run.schedule, run.microbatches = "hw4", 4
	require.NoError(t, run.fitOperation(80))
	seconds, err = run.epoch()
	require.NoError(t, err)
	require.InEpsilon(t, 80, seconds, 1e-3)
}

// An epoch is 5000 samples, whatever the batch: 39 of 128 and one of 8.
func TestCourseEpoch(t *testing.T) {
	run := courseRun{schedule: "ddp", device: "rtx-4090d", batch: 128, microbatches: 1}
	whole, err := run.step(128, 1)
	require.NoError(t, err)
	left, err := run.step(8, 1)
	require.NoError(t, err)
	seconds, err := run.epoch()
	require.NoError(t, err)
	require.InDelta(t, 39*whole.Seconds()+left.Seconds(), seconds, 1e-9)
}

// With the host that the slow pipeline shows, two RTX 4090D are not bound by
// launches where a batch is whole; and the public pipelines are predicted to 6 %.
func TestCourseTables(t *testing.T) {
	rows, err := gpt24090D().Rows()
	require.NoError(t, err)
	for _, row := range rows {
		require.Less(t, math.Abs(row.Error()), 0.05, row.Label)
	}
	require.Greater(t, rows[3].Predicted, rows[2].Predicted, "the pipeline is slower than model parallel")
	pipelines, err := coursePipeline().replay()
	require.NoError(t, err)
	require.Equal(t, []int{18, 16}, []int{pipelines.Rows, pipelines.Compared})
	require.Less(t, pipelines.MeanError, 0.06)
}
