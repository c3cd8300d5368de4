package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
	"psim/exec/exectest"
	"psim/exec/measure"
	"psim/exec/train"
)

// The number of cores does not change the results.
func TestCoresTrainTheSame(t *testing.T) {
	n := exectest.TiedGPT(t)
	j := exectest.Spread{Schedule: "1f1b", Ranks: 2, Replicas: 1}.Job(t, n, []int{2, 2})
	var want []float64
	for _, each := range []int{0, 1, 2} {
		m, err := measure.Job(t.Context(), j, measure.Options{
			Devices: backend.Options{Oversubscribe: true, CoresPerWorker: each},
			Train:   train.Options{Warmup: 1, Steps: 2}, Repeats: 1, Checks: measure.CheckNames(),
		})
		require.NoError(t, err)
		require.NoError(t, m.Verdict.Err())
		if each == 0 {
			want = m.Record.Losses
		}
		require.Equal(t, want, m.Record.Losses, "to the bit")
	}
}
