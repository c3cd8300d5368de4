package train_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
	"psim/exec/exectest"
)

// Replicas that train different numbers of samples train to the weights of the unsplit run,
// because their gradients are weighted by samples. Their memory is as predicted.
func TestUnequalShards(t *testing.T) {
	const samples, steps = 12, 3
	for _, c := range []struct {
		exectest.Spread
		shards []int64 // of a microbatch, of which there are two
	}{
		{exectest.Spread{Schedule: "ddp", Ranks: 1, Replicas: 3}, []int64{3, 1, 2}},
		{exectest.Spread{Schedule: "ddp", Ranks: 1, Replicas: 3, Bucket: 3000, Overlap: true}, []int64{1, 1, 4}},
		{exectest.Spread{Schedule: "ddp", Ranks: 1, Replicas: 3, Sharded: true, PerTensor: true}, []int64{3, 2, 1}},
		{exectest.Spread{Schedule: "1f1b", Ranks: 2, Replicas: 2, Bucket: 3000, Overlap: true}, []int64{5, 1}},
	} {
		for kind, n := range map[string]network.Network{"gpt": exectest.TiedGPT(t), "mlp": exectest.MiniMLP(t)} {
			if testing.Short() && kind != "mlp" {
				continue // only one network goes through all of it
			}
			m := c.Spread
			m.Shards = c.shards
			t.Run(kind+"/"+m.String(), func(t *testing.T) {
				sizes := slices.Repeat([]int{int(slices.Max(m.Shards))}, 2)
				all := exectest.Batches(t, n, samples, steps)
				want, wantLosses := trainSteps(t, exectest.Unsplit(t, n, samples), all, 0)
				got, losses := trainSteps(t, m.Job(t, n, sizes), all, 7)
				require.Less(t, difference(t, want, got), 1e-5)
				require.InDeltaSlice(t, wantLosses, losses, 1e-4)
				predicted, measured := ledgers(t, m, n, sizes)
				require.Equal(t, predicted.Persistent, measured.Persistent)
				require.Equal(t, exectest.Peaks(predicted), exectest.Peaks(measured))
			})
		}
	}
}
