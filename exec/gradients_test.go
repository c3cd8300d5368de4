package exec_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec"
)

// What every rank holds of the first step's gradients is what is compared with the
// unsplit run: all of them on every replica, those of its stages in a pipeline, and
// equal shares where parameters are sharded.
func TestGradientsByRank(t *testing.T) {
	n := miniMLP(t)
	measure := func(m mode) *exec.Measurement {
		got, err := exec.Measure(t.Context(), m.job(t, n, []int{2, 2}), exec.MeasureOptions{
			Devices:      exec.DeviceOptions{Oversubscribe: true},
			TrainOptions: exec.TrainOptions{Warmup: 1, Steps: 1, Gradients: true}, Checks: []string{exec.CheckGradients},
		})
		require.NoError(t, err)
		require.NoError(t, got.Verdict.Err())
		require.Len(t, got.Gradients, m.ranks*m.replicas)
		for _, held := range got.Gradients {
			require.Len(t, held.Values, len(held.Tensors))
			for _, tensor := range held.Tensors {
				require.Len(t, held.Values[tensor.Name], int(tensor.Shape.Elements()))
			}
		}
		return got
	}
	ddp := measure(mode{schedule: "ddp", ranks: 1, replicas: 2})
	for _, held := range ddp.Gradients {
		require.Equal(t, ddp.Record.Gradients[0], held.Values)
	}
	pipeline, all := measure(mode{schedule: "1f1b", ranks: 2, replicas: 1}), map[string][]float32{}
	for _, held := range pipeline.Gradients {
		maps.Copy(all, held.Values)
	}
	require.Equal(t, pipeline.Record.Gradients[0], all)
	require.Less(t, len(pipeline.Gradients[0].Values), len(all))
	sharded := measure(mode{schedule: "ddp", ranks: 1, replicas: 2, sharded: true})
	require.Equal(t, sharded.Gradients[0].Tensors, sharded.Gradients[1].Tensors)
	require.NotEqual(t, sharded.Gradients[0].Values, sharded.Gradients[1].Values)
}
