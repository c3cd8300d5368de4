package measure_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/exectest"
	"psim/exec/measure"
	"psim/exec/train"
)

// The gradients of the first step that every rank holds are those that are compared with the
// unsplit run: all of them on every replica, those of its stages in a pipeline, and equal
// shards if parameters are sharded.
func TestGradientsByRank(t *testing.T) {
	n := exectest.MiniMLP(t)
	measure := func(m exectest.Spread) *measure.Findings {
		got, err := measure.Job(t.Context(), m.Job(t, n, []int{2, 2}), measure.Options{
			Devices: exectest.Options(),
			Train:   train.Options{Warmup: 1, Steps: 1, Gradients: true}, Checks: []string{measure.CheckGradients},
		})
		require.NoError(t, err)
		require.NoError(t, got.Verdict.Err())
		require.Len(t, got.Gradients, m.Ranks*m.Replicas)
		for _, held := range got.Gradients {
			require.Len(t, held.Values, len(held.Tensors))
			for _, tensor := range held.Tensors {
				require.Len(t, held.Values[tensor.Name], int(tensor.Shape.Elements()))
			}
		}
		return got
	}
	ddp := measure(exectest.Spread{Schedule: "ddp", Ranks: 1, Replicas: 2})
	for _, held := range ddp.Gradients {
		require.Equal(t, ddp.Record.Gradients[0], held.Values)
	}
	pipeline, all := measure(exectest.Spread{Schedule: "1f1b", Ranks: 2, Replicas: 1}), map[string][]float32{}
	for _, held := range pipeline.Gradients {
		maps.Copy(all, held.Values)
	}
	require.Equal(t, pipeline.Record.Gradients[0], all)
	require.Less(t, len(pipeline.Gradients[0].Values), len(all))
	sharded := measure(exectest.Spread{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true})
	require.Equal(t, sharded.Gradients[0].Tensors, sharded.Gradients[1].Tensors)
	require.NotEqual(t, sharded.Gradients[0].Values, sharded.Gradients[1].Values)
}
