package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/memory"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// ten is a network of 1e10 parameters.
func ten() network.Network {
	return network.Network{Name: "ten", Layers: []network.Layer{{
		Name: "all", Input: network.Dims{1}, Output: network.Dims{1},
		Params: []network.Tensor{{Name: "w", Shape: network.Dims{100_000, 100_000}}},
	}}}
}

// Ten billion parameters over 8 workers, fp16 with Adam (Rajbhandari et al. 2020,
// figure 1).
func TestPersistent(t *testing.T) {
	w := stages.Workload{
		Network: ten(), Layers: []int{1}, Placement: graph.Placement{First: []int32{0}}, Samples: []int64{1}, Replicas: 8,
		Training: training.Options{Precision: "fp16", Optimizer: "adam"},
	}
	for zero, want := range []int64{160e9, 55e9, 37.5e9, 20e9} {
		w.Zero = zero
		persistent := memory.Persistent(w.Staged(), 8)
		require.Len(t, persistent, 8)
		for _, p := range persistent {
			require.Equal(t, want, p, "zero %d", zero)
		}
	}
	w.Zero, w.State = 1, training.State{Parameter: 4, Gradient: 4, Optimizer: 12} // question 3.2
	require.EqualValues(t, 95e9, memory.Persistent(w.Staged(), 8)[3])
}

// A share of what does not divide is rounded up, kind by kind, but with ZeRO 3
// to whole parameters.
func TestSharesAreRoundedUp(t *testing.T) {
	n := ten()
	n.Layers[0].Params[0].Shape = network.Dims{1}
	w := stages.Workload{
		Network: n, Layers: []int{1}, Placement: graph.Placement{First: []int32{0}}, Samples: []int64{1}, Replicas: 3,
		State: training.State{Parameter: 4, Gradient: 4, Optimizer: 8},
	}
	for zero, want := range []int64{16, 4 + 4 + 3, 4 + 2 + 3, 4 + 4 + 8} {
		w.Zero = zero
		require.Equal(t, []int64{want, want, want}, memory.Persistent(w.Staged(), 3), "zero %d", zero)
	}
	w.Replicas = 0 // means 1
	require.Equal(t, []int64{16}, memory.Persistent(w.Staged(), 1))
}
