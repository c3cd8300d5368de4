package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel/memory"
	"psim/costmodel/models"
	"psim/costmodel/network"
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
	require.Empty(t, w.Staged().Boundaries())
	require.Len(t, w.Staged().Stages[0].Layers, 15)
	require.Equal(t, []int64{16 * gpt2Parameters}, memory.Persistent(w.Staged(), 1)) // fp32 adamw
}

// Over four ranks the last one has a copy, whose gradient is summed with the
// first one's.
func TestGPT2OnFourRanks(t *testing.T) {
	w := workload(t, gpt2(t), []int32{0, 1, 2, 3}, 1)
	require.Equal(t, []int{4, 4, 4, 3}, w.Layers)
	require.Equal(t, "embed", w.Staged().Stages[0].Layers[0].Name)
	require.Equal(t, "h.3", w.Staged().Stages[1].Layers[0].Name)
	require.Equal(t, "head", w.Staged().Stages[3].Layers[2].Name)
	require.Equal(t, []wiring.Tied{{Stages: []int{0, 3}, Bytes: 4 * wte}}, tiedSums(w))
	require.EqualValues(t, 12*768*768+13*768+2*768+wte, parameters(w, 3)) // h.11, ln_f, the copy
	var sum int64
	for s := range w.Layers {
		sum += parameters(w, s)
	}
	require.EqualValues(t, gpt2Parameters+wte, sum)
	boundary := wiring.Boundary{Forward: 1024 * 768 * 4, Backward: 1024 * 768 * 4}
	require.Equal(t, []wiring.Boundary{boundary, boundary, boundary}, w.Staged().Boundaries())
	w.Training.Precision = "fp16"
	require.EqualValues(t, 1024*768*2, w.Staged().Boundaries()[2].Forward)
	require.EqualValues(t, 2*wte, tiedSums(w)[0].Bytes)
}

// The preset puts the head back on rank 0, where the table is.
func TestGPT2Placement(t *testing.T) {
	n := gpt2(t)
	layers, ranks, err := models.GPT2Placement(n, 2)
	require.NoError(t, err)
	require.Equal(t, []int32{0, 1, 0}, ranks)
	w := stages.Workload{Network: n, Layers: layers, Placement: graph.Placement{First: []int32{0, 1, 0}}, Samples: []int64{1}}
	require.Empty(t, tiedSums(w))
	require.Zero(t, parameters(w, 2))
	require.EqualValues(t, gpt2Parameters, parameters(w, 0)+parameters(w, 1))
	require.Equal(t, []int64{16 * parameters(w, 0), 16 * parameters(w, 1)}, memory.Persistent(w.Staged(), 2))
	w.Placement.First = []int32{0, 1, 1}
	require.Len(t, tiedSums(w), 1)
	require.EqualValues(t, wte, parameters(w, 2))
}

// Bucket "tensor" sends 148 tensors of GPT-2, in the order in which a backward
// completes them.
func TestSync(t *testing.T) {
	w := workload(t, gpt2(t), []int32{0}, 1)
	require.Equal(t, wiring.Sync{}, synced(w, 0, true).Staged().Sync()) // one replica
	w.Replicas = 2
	sync := w.Staged().Sync()
	require.False(t, sync.Overlap)
	require.False(t, sync.Sharded)
	require.Len(t, sync.Buckets[0], 148)
	require.EqualValues(t, 497_759_232, total(sync.Buckets[0]))
	require.EqualValues(t, 4*768, sync.Buckets[0][0]) // ln_f.bias
	require.EqualValues(t, 4*wte, sync.Buckets[0][147])
	require.EqualValues(t, 497_759_232, total(sync.Parameters[0]))

	w.Zero = 1
	sync = synced(w, 25_000_000, true).Staged().Sync()
	require.True(t, sync.Overlap)
	require.True(t, sync.Sharded)
	require.EqualValues(t, 497_759_232, total(sync.Buckets[0]))
	require.Less(t, len(sync.Buckets[0]), 20)
	require.Len(t, sync.Parameters[0], len(sync.Buckets[0]), "as many gathers as sums")
	require.EqualValues(t, 497_759_232, total(sync.Parameters[0]))
	for i, bytes := range sync.Parameters[0] { // in the order of a forward, all in fp32
		require.InDelta(t, sync.Buckets[0][len(sync.Buckets[0])-1-i], bytes, 1)
	}
	once := synced(w, 25_000_000, true)
	once.UpdatedAtOnce = true
	require.Equal(t, [][]int64{{497_759_232}}, once.Staged().Sync().Parameters)

	w = synced(w, 0, false)
	g := graphOf(t, w, orderOf(t, "ddp", w))
	count := 0
	for _, task := range g.Tasks() {
		if task.Kind == graph.ReduceScatter && task.Rank == 1 {
			count++
		}
	}
	require.Equal(t, 148, count)
}

// Times of stages are those of their layers.
func TestStageTimes(t *testing.T) {
	w := workload(t, smallGPT(t), []int32{0, 1}, 2)
	w.Training.Recompute = "selective"
	c := compute(t, device())
	g := graphOf(t, w, orderOf(t, "gpipe", w))
	costs := costsOf(t, w, machine(), g)
	took := map[graph.Kind]map[int32]time.Duration{graph.Forward: {}, graph.Backward: {}}
	for i := range int32(g.Len()) {
		if task := new(g.Task(i)); task.Kind.Compute() {
			took[task.Kind][task.Stage] = costs.Task(task).Busy
		}
	}
	for s := range int32(2) {
		forward, backward := took[graph.Forward][s], took[graph.Backward][s]
		for _, l := range w.Staged().Stages[s].Layers {
			forward -= c.Layer(l, network.Forward, 2)
			backward -= c.Layer(l, network.InputGradient, 2) + c.Layer(l, network.WeightGradient, 2) + c.Recompute(l, w.Training, 2)
		}
		require.Zero(t, forward)
		require.Zero(t, backward)
	}
}
