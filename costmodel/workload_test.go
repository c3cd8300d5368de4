package costmodel_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel/arch"
	"psim/costmodel/memory"
	"psim/costmodel/stages"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

const (
	gpt2Parameters = 124_439_808
	wte            = 50257 * 768
)

func total(values []int64) int64 {
	var sum int64
	for _, v := range values {
		sum += v
	}
	return sum
}

// On one rank the embedding's table is also the head's: it counts once.
func TestGPT2OnOneRank(t *testing.T) {
	w := workload(t, gpt2(t), []int32{0}, 1)
	require.EqualValues(t, gpt2Parameters, parameters(w, 0))
	require.Empty(t, tiedSums(w))
	require.Empty(t, w.Plan().Boundaries())
	require.Len(t, w.Plan().Stages[0].Layers, 15)
	require.Equal(t, []int64{16 * gpt2Parameters}, memory.Persistent(w.Plan(), 1)) // fp32 adamw
}

// Over four ranks the last one has a copy, whose gradient is summed with the
// first one's.
func TestGPT2OnFourRanks(t *testing.T) {
	w := workload(t, gpt2(t), []int32{0, 1, 2, 3}, 1)
	require.Equal(t, []int{4, 4, 4, 3}, w.Layers)
	require.Equal(t, "embed", w.Plan().Stages[0].Layers[0].Name)
	require.Equal(t, "h.3", w.Plan().Stages[1].Layers[0].Name)
	require.Equal(t, "head", w.Plan().Stages[3].Layers[2].Name)
	require.Equal(t, []wiring.Tied{{Stages: []int{0, 3}, Bytes: 4 * wte}}, tiedSums(w))
	require.EqualValues(t, 12*768*768+13*768+2*768+wte, parameters(w, 3)) // h.11, ln_f, the copy
	var sum int64
	for s := range w.Layers {
		sum += parameters(w, s)
	}
	require.EqualValues(t, gpt2Parameters+wte, sum)
	boundary := wiring.Boundary{Forward: 1024 * 768 * 4, Backward: 1024 * 768 * 4}
	require.Equal(t, []wiring.Boundary{boundary, boundary, boundary}, w.Plan().Boundaries())
	w.Training.Precision = "fp16"
	require.EqualValues(t, 1024*768*2, w.Plan().Boundaries()[2].Forward)
	require.EqualValues(t, 2*wte, tiedSums(w)[0].Bytes)
}

// The course puts the head back on rank 0, where the table is.
func TestGPT2Placement(t *testing.T) {
	n := gpt2(t)
	layers, ranks, err := arch.GPT2Placement(n, 2)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 0}, ranks)
	w := stages.Workload{Network: n, Layers: layers, Placement: graph.Placement{First: []int32{0, 1, 0}}, Samples: []int64{1}}
	require.Empty(t, tiedSums(w))
	require.Zero(t, parameters(w, 2))
	require.EqualValues(t, gpt2Parameters, parameters(w, 0)+parameters(w, 1))
	require.Equal(t, []int64{16 * parameters(w, 0), 16 * parameters(w, 1)}, memory.Persistent(w.Plan(), 2))
	w.Placement.First = []int32{0, 1, 1}
	require.Len(t, tiedSums(w), 1)
	require.EqualValues(t, wte, parameters(w, 2))
}

// Bucket "tensor" sends 148 tensors of GPT-2, in the order in which a backward
// completes them.
func TestSync(t *testing.T) {
	w := workload(t, gpt2(t), []int32{0}, 1)
	require.Equal(t, wiring.Sync{}, synced(w, 0, true).Plan().Sync()) // one replica
	w.Replicas = 2
	sync := w.Plan().Sync()
	require.False(t, sync.Overlap)
	require.False(t, sync.Sharded)
	require.Len(t, sync.Buckets[0], 148)
	require.EqualValues(t, 497_759_232, total(sync.Buckets[0]))
	require.EqualValues(t, 4*768, sync.Buckets[0][0]) // ln_f.bias
	require.EqualValues(t, 4*wte, sync.Buckets[0][147])
	require.Equal(t, []int64{497_759_232}, sync.Parameters)

	w.Zero = 1
	sync = synced(w, 25_000_000, true).Plan().Sync()
	require.True(t, sync.Overlap)
	require.True(t, sync.Sharded)
	require.EqualValues(t, 497_759_232, total(sync.Buckets[0]))
	require.Less(t, len(sync.Buckets[0]), 20)

	w = synced(w, 0, false)
	g := graphOf(t, w, orderOf(t, "ddp", w))
	count := 0
	for _, task := range g.Tasks {
		if task.Kind == graph.ReduceScatter && task.Rank == 1 {
			count++
		}
	}
	require.Equal(t, 148, count)
}

// ten is a network of 1e10 parameters.
func ten() arch.Network {
	return arch.Network{Name: "ten", Layers: []arch.Layer{{
		Name: "all", Input: arch.Shape{1}, Output: arch.Shape{1},
		Params: []arch.Tensor{{Name: "w", Shape: arch.Shape{100_000, 100_000}}},
	}}}
}

// The course's question 3.3: ten billion parameters over 8 workers, fp16 with
// Adam (Rajbhandari et al. 2020, figure 1).
func TestPersistent(t *testing.T) {
	w := stages.Workload{
		Network: ten(), Layers: []int{1}, Placement: graph.Placement{First: []int32{0}}, Samples: []int64{1}, Replicas: 8,
		Training: arch.Training{Precision: "fp16", Optimizer: "adam"},
	}
	for zero, want := range []int64{160e9, 55e9, 37.5e9, 20e9} {
		w.Zero = zero
		persistent := memory.Persistent(w.Plan(), 8)
		require.Len(t, persistent, 8)
		for _, p := range persistent {
			require.Equal(t, want, p, "zero %d", zero)
		}
	}
	w.Zero, w.State = 1, arch.State{Parameter: 4, Gradient: 4, Optimizer: 12} // question 3.2
	require.EqualValues(t, 95e9, memory.Persistent(w.Plan(), 8)[3])
}

// A share of what does not divide is rounded up, kind by kind, but with ZeRO 3
// to whole parameters.
func TestSharesAreRoundedUp(t *testing.T) {
	n := ten()
	n.Layers[0].Params[0].Shape = arch.Shape{1}
	w := stages.Workload{
		Network: n, Layers: []int{1}, Placement: graph.Placement{First: []int32{0}}, Samples: []int64{1}, Replicas: 3,
		State: arch.State{Parameter: 4, Gradient: 4, Optimizer: 8},
	}
	for zero, want := range []int64{16, 4 + 4 + 3, 4 + 2 + 3, 4 + 4 + 8} {
		w.Zero = zero
		require.Equal(t, []int64{want, want, want}, memory.Persistent(w.Plan(), 3), "zero %d", zero)
	}
	w.Replicas = 0 // means 1
	require.Equal(t, []int64{16}, memory.Persistent(w.Plan(), 1))
}

// Times of stages are those of their layers.
func TestStageTimes(t *testing.T) {
	w := workload(t, smallGPT(t), []int32{0, 1}, 2)
	w.Training.Recompute = "selective"
	c := compute(t, device())
	g := graphOf(t, w, orderOf(t, "gpipe", w))
	costs := costsOf(t, w, machine(), g)
	took := map[graph.Kind]map[int32]time.Duration{graph.Forward: {}, graph.Backward: {}}
	for i := range g.Tasks {
		if task := &g.Tasks[i]; task.Kind.Compute() {
			took[task.Kind][task.Stage] = costs.Task(task).Busy
		}
	}
	for s := range int32(2) {
		forward, backward := took[graph.Forward][s], took[graph.Backward][s]
		for _, l := range w.Plan().Stages[s].Layers {
			forward -= c.Layer(l, arch.Forward, 2)
			backward -= c.Layer(l, arch.InputGradient, 2) + c.Layer(l, arch.WeightGradient, 2) + c.Recompute(l, w.Training, 2)
		}
		require.Zero(t, forward)
		require.Zero(t, backward)
	}
}

// A step whose bytes do not fit in 63 bits is refused.
func TestWorkloadValidate(t *testing.T) {
	w := workload(t, gpt2(t), []int32{0}, 1<<20)
	require.NoError(t, w.Validate())
	for _, samples := range [][]int64{{1 << 40}, {1 << 31, 1 << 31}, {math.MaxInt64, math.MaxInt64}} {
		w.Samples = samples
		require.ErrorContains(t, w.Validate(), "more than can be counted in bytes")
	}
	w.Samples, w.Replicas = []int64{1 << 20}, 1<<20
	require.ErrorContains(t, w.Validate(), "1099511627776 samples per step of gpt2")
}
