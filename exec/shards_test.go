package exec_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
)

// Replicas that train different numbers of samples train to the weights of the unsplit
// run: their gradients count by their samples. What they hold is what is predicted.
func TestUnequalShards(t *testing.T) {
	const samples, steps = 12, 3
	for _, c := range []struct {
		mode
		shards []int64 // of a microbatch, of which there are two
	}{
		{mode{schedule: "ddp", ranks: 1, replicas: 3}, []int64{3, 1, 2}},
		{mode{schedule: "ddp", ranks: 1, replicas: 3, bucket: 3000, overlap: true}, []int64{1, 1, 4}},
		{mode{schedule: "ddp", ranks: 1, replicas: 3, sharded: true, perTensor: true}, []int64{3, 2, 1}},
		{mode{schedule: "1f1b", ranks: 2, replicas: 2, bucket: 3000, overlap: true}, []int64{5, 1}},
	} {
		for kind, n := range map[string]network.Network{"gpt": tiedGPT(t), "mlp": miniMLP(t)} {
			if testing.Short() && kind != "mlp" {
				continue // one network goes through all of it
			}
			m := c.mode
			m.shards = c.shards
			t.Run(kind+"/"+m.String(), func(t *testing.T) {
				sizes := slices.Repeat([]int{int(slices.Max(m.shards))}, 2)
				all := batches(t, n, samples, steps)
				want, wantLosses := train(t, job(t, n, "gpipe", 1, []int{samples}, false), all, 0)
				got, losses := train(t, m.job(t, n, sizes), all, 7)
				require.Less(t, difference(t, want, got), 1e-5)
				require.InDeltaSlice(t, wantLosses, losses, 1e-4)
				predicted, measured := ledgers(t, m, n, sizes)
				require.Equal(t, predicted.Persistent, measured.Persistent)
				require.Equal(t, peaks(predicted), peaks(measured))
			})
		}
	}
}
