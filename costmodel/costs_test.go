package costmodel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// backwards sums the slices of every stage's and microbatch's B or W: their times,
// and what is more or less at their end.
func backwards(t tester, w stages.Workload, m costmodel.Machine, g *graph.Graph, kind graph.Kind) (sum map[[2]int32]graph.Cost, parts int) {
	t.Helper()
	costs, err := costmodel.StepCosts(m, w.Staged(), g)
	require.NoError(t, err)
	sum = map[[2]int32]graph.Cost{}
	for i := range int32(g.Len()) {
		task := new(g.Task(i))
		if task.Kind != kind || int(task.Rank) >= g.Shape.Ranks {
			continue
		}
		c, at := costs.Task(task), [2]int32{task.Stage, task.Microbatch}
		require.GreaterOrEqual(t, c.Busy, time.Duration(0))
		whole := sum[at]
		whole.Busy += c.Busy
		whole.BytesAtEnd += c.BytesAtStart + c.BytesAtEnd
		sum[at] = whole
		parts++
	}
	return sum, parts
}

// The slices of an overlapped backward add up to the whole, in time and in the
// memory that they free, to the nanosecond and byte, whatever the buckets.
func TestSlicesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := workload(t, smallGPT(t), rapid.SampledFrom(placements).Draw(t, "placement"), 3, 3, 1)
		w.Replicas = rapid.IntRange(2, 3).Draw(t, "replicas")
		w.Training = rapid.SampledFrom(recomputations()).Draw(t, "recompute")
		bucket := rapid.Int64Range(0, 100_000).Draw(t, "bucket")
		m := machine()
		m.Device.Launch = 0
		o := orderOf(t, "gpipe", w)
		kind := graph.Backward
		if rapid.Bool().Draw(t, "split") {
			o, kind = splitOrders(o)["zb-h1"], graph.WeightGradient
			w.Training.Split = rapid.SampledFrom([]string{training.SplitLayer, training.SplitStage}).Draw(t, "of every")
		}
		after, beside := synced(w, bucket, false), synced(w, bucket, true)
		whole, n := backwards(t, after, m, graphOf(t, after, o), kind)
		sliced, parts := backwards(t, beside, m, graphOf(t, beside, o), kind)
		require.Equal(t, whole, sliced)
		if bucket == 0 {
			require.Greater(t, parts, n)
		}
	})
}

// Buckets cut a backward where their gradients are complete: of two equal
// layers the first bucket leaves after the second layer.
func TestSlicesFollowLayers(t *testing.T) {
	w := workload(t, mlp(t, 2, 64), []int32{0}, 5)
	w.Replicas = 2
	w = synced(w, 4*64*65, true)
	g := graphOf(t, w, orderOf(t, "ddp", w)) // one layer each
	costs := costsOf(t, w, machine(), g)
	c := compute(t, device())
	layers := w.Staged().Stages[0].Layers
	for part, layer := range []int{1, 0} {
		task := graph.Task{Kind: graph.Backward, Part: uint16(part)}
		require.Equal(t, c.Layer(layers[layer], 1, 5)+c.Layer(layers[layer], 2, 5), costs.Task(&task).Busy)
	}
}

// ddp is two replicas of a small GPT, slow enough on the link to matter.
func ddp(t *testing.T, zero int, overlap bool, replicas int) (*graph.Graph, graph.Summary) {
	t.Helper()
	w := workload(t, smallGPT(t), []int32{0}, 8, 8)
	w.Replicas, w.Zero = replicas, zero
	w = synced(w, 10_000, overlap)
	g := graphOf(t, w, orderOf(t, "ddp", w))
	trace := simulate(t, w, machine(), g)
	ledger(t, trace)
	return g, graph.Summarize(trace)
}

// Gradients that leave during the backward are partly hidden behind it.
func TestOverlap(t *testing.T) {
	for _, zero := range []int{0, 1, 2} {
		_, after := ddp(t, zero, false, 2)
		_, beside := ddp(t, zero, true, 2)
		require.Less(t, beside.StepTime, after.StepTime)
		for r := range after.Ranks {
			if zero < 2 { // ZeRO 2 sums after every microbatch, beside the next one's forward
				require.Equal(t, after.Ranks[r].Communication, after.Ranks[r].ExposedCommunication)
			}
			require.Less(t, beside.Ranks[r].ExposedCommunication, beside.Ranks[r].Communication)
			require.Equal(t, after.Ranks[r].Compute, beside.Ranks[r].Compute)
			require.Equal(t, after.Ranks[r].SentBytes, beside.Ranks[r].SentBytes)
		}
	}
}

// Overlap never makes a step longer, for any link and bucket.
func TestOverlapNeverHurts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := machine()
		m.Link = drawLink(t)
		w := workload(t, smallGPT(t), []int32{0}, 4, 2)
		w.Replicas = rapid.IntRange(2, 4).Draw(t, "replicas")
		w.Zero = rapid.IntRange(0, 2).Draw(t, "zero")
		bucket := rapid.Int64Range(0, 200_000).Draw(t, "bucket")
		o := orderOf(t, "ddp", w)
		beside := stepOf(t, synced(w, bucket, true), m, o).End()
		after := stepOf(t, synced(w, bucket, false), m, o).End()
		require.LessOrEqual(t, beside, after)
	})
}

// Sharding the optimizer sends what an all-reduce does: a reduce-scatter of
// the gradients and an all-gather of the parameters. It updates a share.
// Sharding the gradients as well reduces them after each of two microbatches,
// for half as much again.
func TestShardedSendsTheSame(t *testing.T) {
	for _, replicas := range []int{2, 4} {
		_, whole := ddp(t, 0, false, replicas)
		for _, zero := range []int{1, 2} {
			_, sharded := ddp(t, zero, false, replicas)
			for r := range whole.Ranks {
				require.Equal(t, whole.Ranks[r].SentBytes*int64(1+zero)/2, sharded.Ranks[r].SentBytes)
				require.Less(t, sharded.Ranks[r].Optimizer, whole.Ranks[r].Optimizer)
				require.Less(t, sharded.Ranks[r].PersistentMemory, whole.Ranks[r].PersistentMemory)
			}
		}
	}
}

// An update reads gradients and moves state both ways: 4 + 2·8 + 4 + 4 bytes
// with fp32 Adam, 4 + 4 + 4 with plain SGD. In mixed precision gradients are converted
// before, 2 + 4, and weights after, 4 + 2, beside 4 + 2·12 with Adam. In fp16 gradients are
// unscaled, which reads and writes them: 8 bytes more.
func TestOptimizer(t *testing.T) {
	for _, e := range []struct {
		precision, optimizer string
		bytes                int64
	}{{"fp32", "adamw", 28}, {"bf16", "adam", 40}, {"fp16", "adam", 48}, {"fp32", "sgd", 12}, {"bf16", "sgd", 24}, {"fp32", "sgd-momentum", 20}} {
		w := workload(t, mlp(t, 2, 64), []int32{0, 1}, 1)
		w.Training.Precision, w.Training.Optimizer = e.precision, e.optimizer
		costs := costsOf(t, w, machine(), graphOf(t, w, orderOf(t, "gpipe", w)))
		c, err := costmodel.NewCompute(device(), w.Training)
		require.NoError(t, err)
		got := costs.Task(&graph.Task{Kind: graph.Optimizer, Rank: 1}).Busy
		require.Equal(t, c.Move(64*65*e.bytes), got, "%+v", e)
	}
}

// Clipping reads the gradients of a rank once more, or its share of them, sums a
// number over all devices of the model, and multiplies them.
func TestClipping(t *testing.T) {
	for _, e := range []struct {
		gradients                    string
		zero, replicas, ranks, bytes int64
	}{{"", 0, 2, 2, 4}, {"fp32", 0, 2, 2, 4}, {"fp32", 1, 2, 4, 2}, {"", 0, 1, 2, 4}} {
		w := workload(t, mlp(t, 2, 64), []int32{0, 1}, 1)
		w.Replicas, w.Zero = int(e.replicas), int(e.zero)
		w.Training.Precision, w.Training.Gradients = "fp16", e.gradients
		w = synced(w, 0, false)
		g := graphOf(t, w, orderOf(t, "gpipe", w))
		update := func() time.Duration {
			return costsOf(t, w, machine(), g).Task(&graph.Task{Kind: graph.Optimizer, Rank: 1}).Busy
		}
		plain := update()
		w.Training.Clip = true
		c, err := costmodel.NewCompute(device(), w.Training)
		require.NoError(t, err)
		norm := machine().Link.CollectiveTime(graph.AllReduce, int(e.ranks), 4)
		launch := time.Duration(device().Launch)
		norms, scaled := c.Move(64*65*e.bytes), c.Move(2*64*65*e.bytes)-launch // the update launches anyway
		require.InDelta(t, plain+norms+scaled+norm, update(), 1, "%+v, but for rounding", e)
	}
}

// The average reads and writes the gradients; a collective takes the slowest
// link of its group, and a sum room for the half that is on its way; tasks of no
// cost have none.
func TestOtherTasks(t *testing.T) {
	w := workload(t, mlp(t, 2, 64), []int32{0}, 1)
	w.Replicas = 2
	m := machine()
	m.DevicesPerNode, m.Network = 1, link.Link{Bandwidth: 1e9, Latency: 7}
	w = synced(w, 0, false)
	g := graphOf(t, w, orderOf(t, "ddp", w))
	costs := costsOf(t, w, m, g)
	require.Equal(t, compute(t, device()).Move(2000), costs.Task(&graph.Task{Kind: graph.Average, Bytes: 1000}).Busy)
	for kind := range rings {
		got := costs.Task(&graph.Task{Kind: kind, Bytes: 1e6, Stage: 0, Microbatch: graph.None})
		want := graph.Cost{Busy: m.Network.CollectiveTime(kind, 2, 1e6)}
		if kind != graph.AllGather {
			want.BytesAtStart, want.BytesAtEnd = 5e5, -5e5
		}
		require.Equal(t, want, got)
	}
	require.Equal(t, graph.Cost{}, costs.Task(&graph.Task{Kind: graph.Reduce}))
}

// What cannot be priced is refused.
func TestCostsErrors(t *testing.T) {
	w := workload(t, mlp(t, 2, 4), []int32{0, 1}, 1)
	g := graphOf(t, w, orderOf(t, "gpipe", w))
	m := machine()
	m.Device.Peak.FP32 = 0
	_, err := costmodel.StepCosts(m, w.Staged(), g)
	require.ErrorContains(t, err, "no rate")
	m = machine()
	m.Link = link.Link{}
	_, err = costmodel.StepCosts(m, w.Staged(), g)
	require.ErrorContains(t, err, "link: 2 ranks need one between them")
	m = machine()
	m.DevicesPerNode = 1
	_, err = costmodel.StepCosts(m, w.Staged(), g)
	require.ErrorContains(t, err, "network: 2 ranks take 2 nodes (devices_per_node = 1)")
	m.Link, m.Network = link.Link{}, machine().Link // no link is needed inside a node of one
	_, err = costmodel.StepCosts(m, w.Staged(), g)
	require.NoError(t, err)
}

// Pricing a task allocates nothing.
func TestPricingAllocatesNothing(t *testing.T) {
	w := workload(t, smallGPT(t), []int32{0, 1, 0}, 4, 4)
	w.Replicas = 2
	w = synced(w, 0, true)
	g := graphOf(t, w, orderOf(t, "gpipe", w))
	costs := costsOf(t, w, machine(), g)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for i := range g.Classes {
			costs.Task(&g.Classes[i])
		}
	}))
}

// ZeRO 2 keeps its share of the gradients, but a backward makes them whole:
// there is room for them from its start to the end of the reduce-scatter, for
// all of them or bucket by bucket. Of two slices the first also has the gradient
// that it hands to the second.
func TestWholeGradientsUnderZero2(t *testing.T) {
	for _, overlap := range []bool{false, true} {
		w := workload(t, mlp(t, 2, 64), []int32{0}, 1, 1)
		w.Replicas, w.Zero = 2, 2
		const layer = 4 * 64 * 65
		w = synced(w, layer, overlap)
		g := graphOf(t, w, orderOf(t, "ddp", w))
		room := map[graph.Kind][]int64{}
		for _, e := range ordertest.Memory(simulate(t, w, machine(), g)) {
			k := g.Task(e.Task).Kind
			if e.Rank == 0 && (k == graph.Backward && e.Bytes >= layer || k == graph.ReduceScatter) {
				room[k] = append(room[k], e.Bytes)
			}
		}
		want := []int64{2 * layer, 2 * layer} // two microbatches
		if overlap {
			const gradient = 4 * 64
			want = []int64{layer + gradient, layer, layer + gradient, layer}
		}
		require.Equal(t, want, room[graph.Backward])
		const chunk = layer / 2 // on its way
		require.Equal(t, slices.Repeat([]int64{chunk, -chunk - layer}, 4), room[graph.ReduceScatter])
	}
}
