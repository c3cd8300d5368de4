package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/group"
	"psim/costmodel/memory"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// sharded is a network under ZeRO 3: a stage of every layer, all on one rank.
func sharded(n network.Network, replicas int, samples ...int64) stages.Workload {
	w := stages.Workload{Network: n, Samples: samples, Replicas: replicas, Zero: 3, Placement: graph.Placement{First: make([]int32, len(n.Layers))}}
	for range n.Layers {
		w.Layers = append(w.Layers, 1)
	}
	return w
}

// untied is a small GPT whose head has a table of its own.
func untied(t tester) network.Network {
	tied := false
	return build(t, models.Model{Family: "gpt", Layers: 2, Hidden: 32, Heads: 4, Vocab: 50, SequenceLength: 16, Tied: &tied})
}

// A layer of 12 parameters over 5 replicas is stored as 15.
func TestUnits(t *testing.T) {
	w := sharded(mlp(t, 2, 3), 5, 1)
	w.Training = training.Options{Precision: "bf16", Optimizer: "adam"}
	unit := wiring.Unit{Gather: []int64{15 * 2}, Scatter: []int64{15 * 2}, Share: 3 * 2}
	require.Equal(t, wiring.Sync{Overlap: true, Units: []wiring.Unit{unit, unit}}, synced(w, 0, true).Staged().Sync())
	require.Equal(t, []int64{96, 96, 96, 96, 96}, memory.Persistent(w.Staged(), 5), "two layers, 3 parameters, 16 bytes each")
	w.Replicas = 1
	require.Equal(t, wiring.Sync{}, synced(w, 0, true).Staged().Sync())
}

// A tied head works on the embedding's unit, positions and all; the embedding
// keeps the sum. A head with a table of its own has a unit of its own.
func TestUnitsOfATiedHead(t *testing.T) {
	const embedding, table = (50 + 16) * 32, 50 * 32
	head := func(n network.Network) (wiring.Unit, wiring.Unit) {
		units := sharded(n, 2, 1).Staged().Sync().Units
		return units[0], units[len(units)-1]
	}
	first, last := head(smallGPT(t))
	require.Equal(t, wiring.Unit{Gather: []int64{4 * embedding}, Scatter: []int64{4 * embedding}, Share: 2 * embedding}, first)
	require.Equal(t, wiring.Unit{Gather: []int64{4 * embedding}, Scatter: []int64{4 * embedding}}, last)
	whole := workload(t, smallGPT(t), []int32{0}, 1)
	whole.Replicas, whole.Zero = 2, 3
	bytes := 4 * whole.Network.Parameters()
	require.Equal(t, []wiring.Unit{{Gather: []int64{bytes}, Scatter: []int64{bytes}, Share: bytes / 2}}, whole.Staged().Sync().Units, "the head is in the embedding's unit")
	whole = workload(t, smallGPT(t), []int32{0, 1}, 1)
	whole.Replicas, whole.Zero = 2, 3
	require.Equal(t, []int64{4 * parameters(whole, 1)}, whole.Staged().Sync().Units[1].Gather, "a copy on another rank is its own")
	first, last = head(untied(t))
	require.Equal(t, wiring.Unit{Gather: []int64{4 * embedding}, Scatter: []int64{4 * embedding}, Share: 2 * embedding}, first)
	require.Equal(t, wiring.Unit{Gather: []int64{4 * table}, Scatter: []int64{4 * table}, Share: 2 * table}, last)
}

// Memory returns to what persists, which is a share of what one device would
// hold, in every mode and for every network.
func TestLedgerOfUnits(t *testing.T) {
	for _, n := range []network.Network{smallGPT(t), untied(t), mlp(t, 5, 7), build(t, models.Model{Preset: "vgg16"})} {
		for _, replicas := range []int{1, 2, 3, 4} {
			for _, samples := range samplings {
				for _, overlap := range []bool{false, true} {
					for _, gloo := range []bool{false, true} {
						w := sharded(n, replicas, samples...)
						w.Bucket, w.Overlap, w.NoReduceScatter, w.PerTensor = 0, overlap, gloo, overlap != gloo
						trace := simulate(t, w, machine(), graphOf(t, w, orderOf(t, "ddp", w)))
						for _, peak := range ledger(t, trace) {
							require.Positive(t, peak)
						}
						whole, padding := 16*n.Parameters(), int64(16*16*len(n.Layers)*replicas) // at most 16 tensors a layer
						for _, p := range trace.Persistent {
							require.GreaterOrEqual(t, p*int64(replicas), whole)
							require.Less(t, p*int64(replicas), whole+padding)
						}
					}
				}
			}
		}
	}
}

// By hand: two layers of 3×3 over two replicas, 48 bytes of parameters each,
// two samples in fp32. Activations are as in TestLedgerByHandOneStage.
//
//	gather 0 +48; 0F0 keeps its input and output +48, −48
//	gather 1 +48; 1F0 keeps its results, labels and loss +36, −48: its input is 0's output
//	gather 1 +48; 1B0 a gradient to hand on and its own +24 +48, −36 −48; scattered with a chunk on its way +24, −24 −48
//	gather 0 +48; 0B0 its own gradient +48, −48 kept, −24 received, −48; scattered with a chunk on its way +24, −24 −48
func TestLedgerOfUnitsByHand(t *testing.T) {
	w := sharded(mlp(t, 2, 3), 2, 2)
	w.Training.Optimizer = "sgd"
	trace := stepOf(t, synced(w, 0, false), machine(), orderOf(t, "ddp", w))
	type change struct {
		task  string
		bytes int64
	}
	var changes []change
	for _, e := range ordertest.Memory(trace) {
		if e.Rank == 0 {
			changes = append(changes, change{trace.Graph.Task(e.Task).String(), e.Bytes})
		}
	}
	require.Equal(t, []change{
		{"0ALL_GATHER0", 48}, {"0F0", 48}, {"0F0", -48},
		{"1ALL_GATHER0", 48}, {"1F0", 32 + loss}, {"1F0", -48},
		{"1ALL_GATHER0", 48}, {"1B0", 24 + 48}, {"1B0", -32 - loss - 48}, {"1REDUCE_SCATTER0", 24}, {"1REDUCE_SCATTER0", -24 - 48},
		{"0ALL_GATHER0", 48}, {"0B0", 48}, {"0B0", -24 - 24 - 24 - 48}, {"0REDUCE_SCATTER0", 24}, {"0REDUCE_SCATTER0", -24 - 48},
	}, changes)
	require.Equal(t, []int64{96, 96}, trace.Persistent, "12 parameters of 8 bytes") // a half of both layers
}

// A pass of VGG16 gathers 8 layers, or 32 tensors, each of which is padded by itself.
func TestGathersOfVGG16(t *testing.T) {
	w := sharded(build(t, models.Model{Preset: "vgg16"}), 3, 1)
	count := func() (gathers, sums int) {
		g := graphOf(t, w, orderOf(t, "ddp", w))
		for i := range int32(g.Len()) {
			switch task := new(g.Task(i)); {
			case task.Rank > 0:
			case task.Kind == graph.AllGather:
				gathers++
			case task.Kind == graph.ReduceScatter:
				sums++
			}
		}
		return gathers, sums
	}
	gathers, sums := count()
	require.Equal(t, []int{2 * 8, 8}, []int{gathers, sums}, "forward and backward")
	w.PerTensor = true
	gathers, sums = count()
	require.Equal(t, []int{2 * 32, 32}, []int{gathers, sums})
	unit := w.Staged().Sync().Units[0]
	require.Equal(t, []int64{4 * 64 * 3 * 9, 4 * 66, 4 * 64 * 64 * 9, 4 * 66}, unit.Gather)
}

// The simplified form keeps the whole model and whole gradients beside its shares, and
// changes nothing else.
func TestSimplifiedUnits(t *testing.T) {
	for _, n := range []network.Network{smallGPT(t), build(t, models.Model{Preset: "vgg16"})} {
		for _, replicas := range []int{1, 2, 3} {
			w := sharded(n, replicas, 2, 1)
			step := func() *graph.Trace { return stepOf(t, synced(w, 0, true), machine(), orderOf(t, "ddp", w)) }
			plain := step()
			w.Simplified = true
			simplified := step()
			require.Equal(t, ordertest.Spans(plain), ordertest.Spans(simplified))
			more := 8 * n.Parameters()
			if replicas == 1 { // nothing is shared
				more = 0
			}
			for r := range plain.Persistent {
				require.Equal(t, plain.Persistent[r]+more, simplified.Persistent[r])
			}
			require.Equal(t, plain.Memory, simplified.Memory)
		}
	}
}

// VGG16 with ten classes has 134,301,514 parameters: a worker sends 3(W−1)/W of
// their 537 MB, or 4(W−1)/W through Gloo, where data parallelism sends
// 2(W−1)/W. Padding adds at most a few bytes a layer.
func TestVGG16Sends(t *testing.T) {
	const bytes = 4 * 134_301_514
	for _, workers := range []int64{2, 4} {
		for _, e := range []struct {
			zero  int
			gloo  bool
			parts int64
		}{{0, false, 2}, {1, false, 2}, {1, true, 3}, {3, false, 3}, {3, true, 4}} {
			w := sharded(build(t, models.Model{Preset: "vgg16"}), int(workers), 1)
			w.Zero = e.zero
			w.Bucket, w.Overlap, w.NoReduceScatter = 25_000_000, true, e.gloo
			trace := simulate(t, w, machine(), graphOf(t, w, orderOf(t, "ddp", w)))
			want := e.parts * (workers - 1) * bytes / workers
			for _, r := range graph.Summarize(trace).Ranks {
				require.InDelta(t, want, r.SentBytes, 200, "%+v", e)
			}
		}
	}
}

// Gathering ahead and scattering beside the backward hides some of both, at
// the price of room for a second unit. Gloo differs in the time of the sums
// alone.
func TestUnitsOverlap(t *testing.T) {
	run := func(overlap, gloo bool) graph.Summary {
		w := sharded(mlp(t, 6, 256), 4, 64, 64)
		w.Bucket, w.Overlap, w.NoReduceScatter = 0, overlap, gloo
		return graph.Summarize(simulate(t, w, machine(), graphOf(t, w, orderOf(t, "ddp", w))))
	}
	after, beside, gloo := run(false, false), run(true, false), run(false, true)
	require.Less(t, beside.StepTime, after.StepTime)
	require.Less(t, after.StepTime, gloo.StepTime)
	require.Equal(t, after.Ranks[0].Communication, after.Ranks[0].ExposedCommunication)
	require.Zero(t, after.Ranks[0].Idle, "one thing after another")
	require.Less(t, beside.Ranks[0].ExposedCommunication, after.Ranks[0].ExposedCommunication)
	require.Equal(t, after.Ranks[0].Compute, beside.Ranks[0].Compute)
	require.Equal(t, after.Ranks[0].SentBytes, beside.Ranks[0].SentBytes)
	require.Less(t, after.Ranks[0].PeakMemory, beside.Ranks[0].PeakMemory)
	require.Equal(t, after.Ranks[0].PeakMemory, gloo.Ranks[0].PeakMemory)
}

// What a unit gathers is copied into its tensors before every use: 4 bytes of a parameter
// are read and written, beside a launch. It makes no difference without replicas.
func TestCopiesOfUnits(t *testing.T) {
	w := sharded(mlp(t, 2, 100), 2, 1)
	prices := func() map[graph.Kind]time.Duration {
		times := map[graph.Kind]time.Duration{}
		g := graphOf(t, w, orderOf(t, "ddp", w))
		costs, err := costmodel.StepCosts(machine(), w.Staged(), g)
		require.NoError(t, err)
		for i := range int32(g.Len()) {
			if task := new(g.Task(i)); task.Stage == 0 {
				times[task.Kind] = costs.Task(task).Busy
			}
		}
		return times
	}
	unit := prices()
	w.Copied = true
	copied := prices()
	const copies = 1000 + 2*4*10_100/100 // in ns, at 100 GB/s; of 10,100 parameters in fp32
	for kind, time := range unit {
		want := 0
		if kind.Compute() {
			want = copies
		}
		require.InDelta(t, want, copied[kind]-time, 1, "%v", kind)
	}
	w.Replicas = 1
	alone := prices()
	w.Copied = false
	require.Equal(t, alone, prices())
}

// Gradients that are summed once are scattered with the last microbatch alone, and are whole until then.
func TestUnitsSummedOnce(t *testing.T) {
	for _, n := range []network.Network{untied(t), mlp(t, 5, 7)} {
		for _, samples := range samplings {
			count := func(once bool) (gathers, scatters int, persistent int64) {
				w := sharded(n, 2, samples...)
				w.SumOnce = once
				trace := stepOf(t, synced(w, 0, true), machine(), orderOf(t, "ddp", w))
				for _, task := range trace.Graph.Tasks() {
					switch {
					case task.Rank != 0:
					case task.Kind == graph.AllGather:
						gathers++
					case task.Kind == graph.ReduceScatter:
						scatters++
					}
				}
				for _, peak := range ledger(t, trace) {
					require.Positive(t, peak)
				}
				return gathers, scatters, trace.Persistent[0]
			}
			gathers, every, shares := count(false)
			same, once, whole := count(true)
			require.Equal(t, gathers, same)
			require.Equal(t, every, once*len(samples))
			require.Equal(t, shares+4*n.Parameters(), whole)
		}
	}
}

// KempnerForge's profile of a Llama 13B on 24 H200 (benchmarks/profiling/13b_24gpu_profiling.md) has 12 gathers and 8
// reduce-scatters of tensor groups for every block and microbatch, with full recomputation that stops early.
func TestGathersOfEveryProduct(t *testing.T) {
	count := func(each, early bool) (gathers, scatters int) {
		n, err := models.Model{
			Family: "llama", Layers: 1, Hidden: 64, Heads: 4, KVHeads: 4, FFNHidden: 128, Vocab: 64, SequenceLength: 32,
		}.On(group.Group{Devices: 4, Sequence: true, EachProduct: each})
		require.NoError(t, err)
		block := n.Layers[1]
		add := func(ops []network.Op, p network.Pass) {
			for _, op := range ops {
				switch x := op.Exchanges[p]; {
				case x.Elements == 0:
				case x.Collective == group.AllGather:
					gathers++
				case x.Collective == group.ReduceScatter:
					scatters++
				}
			}
		}
		for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
			add(block.Ops, p)
		}
		add(training.Options{Recompute: "full", StopEarly: early}.Repeated(block), network.Forward)
		return gathers, scatters
	}
	gathers, scatters := count(true, true)
	require.Equal(t, []int{12, 8}, []int{gathers, scatters})
	// Megatron: two inputs and two results, each four times; inputs once more for the gradients of weights.
	gathers, scatters = count(false, false)
	require.Equal(t, []int{2 + 2 + 2 + 2, 2 + 2 + 2}, []int{gathers, scatters})
}
