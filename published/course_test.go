package published

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// An epoch is 5000 samples, whatever the batch.
func TestCourseEpoch(t *testing.T) {
	for _, name := range []string{"gpt2-4090d", "course-pipeline"} {
		for _, r := range rowsOf(t, table(name)) {
			whole, err := r.Value("samples")
			require.NoError(t, err)
			samples := math.Floor(5000/r.number("batch")) * whole.(float64)
			if math.Mod(5000, r.number("batch")) > 0 {
				left, err := r.Value("left.samples")
				require.NoError(t, err)
				samples += left.(float64)
			}
			require.Equal(t, 5000., samples)
		}
	}
}

// With the host that the slow pipeline shows, two RTX 4090D are not bound by
// launches where a batch is whole; and the public pipelines are predicted to 6 %.
func TestCourseTables(t *testing.T) {
	rows := replayedTable(t, "gpt2-4090d").Replayed
	for _, row := range rows {
		require.Less(t, math.Abs(row.Error()), 0.05, row.Label)
	}
	require.Greater(t, rows[3].Predicted, rows[2].Predicted, "the pipeline is slower than model parallel")
	pipelines := replayedTable(t, "course-pipeline")
	require.Equal(t, []int{18, 16}, []int{pipelines.Rows, pipelines.Compared})
	require.Less(t, pipelines.MeanError, 0.06)
}
