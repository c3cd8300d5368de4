package costmodel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/memory"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// narrowDevice does 1 GFLOP/s in 16 bits, and 2 and 4 in 8 and 4 bits.
func narrowDevice() costmodel.Device {
	d := machine().Device
	d.Peak = costmodel.Peak{FP32: 1e9, BF16: 1e9, FP8: 2e9, FP4: 4e9}
	d.Efficiency = costmodel.Efficiency{FP32: 1, BF16: 1, FP8: 1, FP4: 1, Memory: 1}
	d.HalfRows, d.Launch, d.MemoryBandwidth, d.Multiprocessors, d.Microscaling = 0, 0, 0, 0, true
	return d
}

// A narrow product takes half or a quarter of the time, and moves its operands in as many
// bits; what it takes to begin and end stays.
func TestNarrowProducts(t *testing.T) {
	const flops = 2 * 64 * 128 * 256
	for precision, bits := range map[string]int64{"bf16": 16, "fp8": 8, "mxfp8": 8, "nvfp4": 4} {
		o := network.Op{Class: network.Product, Count: 1, Rows: 64, Inner: 128, Cols: 256, Weight: true}
		if bits < 16 {
			o.Bits = bits
		}
		d := narrowDevice()
		price := func() [3]time.Duration {
			c, err := costmodel.NewCompute(d, training.Options{Precision: precision})
			require.NoError(t, err)
			return [3]time.Duration{c.Op(o, network.Forward, 1), c.Op(o, network.InputGradient, 1), c.Op(o, network.WeightGradient, 1)}
		}
		want := time.Duration(flops * bits / 16)
		require.Equal(t, [3]time.Duration{want, want, want}, price(), precision)
		d.HalfRows = 64
		require.Equal(t, want+flops, price()[0], precision)
		d.HalfRows, d.Peak, d.MemoryBandwidth = 0, costmodel.Peak{BF16: 1e18, FP8: 1e18, FP4: 1e18}, 1e9
		left, right, out := int64(64*128), int64(128*256), int64(64*256)
		wide := time.Duration(2)
		require.Equal(t, [3]time.Duration{
			wide*time.Duration(out) + time.Duration((left+right)*bits/8),
			wide*time.Duration(left) + time.Duration((out+right)*bits/8),
			wide*time.Duration(right) + time.Duration((left+out)*bits/8),
		}, price(), precision)
	}
}

// What the replicas gather and a rank holds of narrow weights, and what the update casts, in
// closed form on a grid of recipes.
func TestNarrowWeights(t *testing.T) {
	n, err := models.Model{Family: "llama", Layers: 4, Hidden: 64, Heads: 4, FFNHidden: 128, Vocab: 100, SequenceLength: 16}.Network()
	require.NoError(t, err)
	const blocks, block, heads = 4, 4*64*64 + 3*64*128, 2*100*64 + 64*9
	wide := map[int]time.Duration{} // the update in bf16, which comes first
	for _, c := range []struct {
		training          training.Options
		held, sent, moved int64 // for a weight, in 32nds of a byte
	}{
		{training.Options{Precision: "bf16"}, 64, 64, 0},
		{training.Options{Precision: "fp8"}, 64, 32, 64},
		{training.Options{Precision: "fp8", BothWays: true}, 32, 32, 0},
		{training.Options{Precision: "fp8", Weights: "16-bit"}, 128, 64, 192},
		{training.Options{Precision: "fp8", FP8Recipe: "blockwise"}, 130, 64, 130},
		{training.Options{Precision: "mxfp8"}, 66, 64, 130},
		{training.Options{Precision: "nvfp4"}, 64 + 36, 64, 192 + 36},
	} {
		for _, zero := range []int{0, 1} {
			w := stages.Workload{Network: n, Layers: []int{7}, Placement: graph.InOrder(1), Samples: []int64{1}, Replicas: 2, Zero: zero, Training: c.training}
			staged := w.Staged()
			require.EqualValues(t, blocks*block+heads, staged.Stages[0].Parameters)
			pipeline := wiring.Pipeline{}
			s, err := schedules.Find("ddp")
			require.NoError(t, err)
			pipeline, err = s.Pipeline(graph.Shape{Ranks: 1, Microbatches: 1, Replicas: 2}, nil)
			require.NoError(t, err)
			staged.Fill(&pipeline)
			pipeline.Optimizer = true
			if zero == 1 {
				require.EqualValues(t, 2*heads+blocks*block*c.sent/32, total(pipeline.Sync.Parameters[0]), "%+v", c.training)
			}
			require.EqualValues(t, blocks*block*(c.held-64)/32, staged.HeldExtra(&staged.Stages[0]))
			g, err := pipeline.Graph()
			require.NoError(t, err)
			m := machine()
			m.Device = narrowDevice()
			m.Device.MemoryBandwidth = 1e9
			took := update(t, m, staged, g)
			if !c.training.Narrow() {
				wide[zero] = took
			}
			require.Equal(t, wide[zero]+time.Duration(blocks*block*c.moved/32), took, "%+v", c.training)
		}
	}
}

// Under ZeRO 3 units travel and are held as the recipe has weights, in closed form.
func TestNarrowUnits(t *testing.T) {
	n, err := models.Model{Family: "llama", Layers: 4, Hidden: 64, Heads: 4, FFNHidden: 128, Vocab: 100, SequenceLength: 16}.Network()
	require.NoError(t, err)
	const block, norms = 4*64*64 + 3*64*128, 2 * 64
	for _, c := range []struct {
		training   training.Options
		sent, held int64 // for a weight, in 32nds of a byte
	}{
		{training.Options{Precision: "bf16"}, 64, 64},
		{training.Options{Precision: "fp8"}, 32, 64},
		{training.Options{Precision: "fp8", BothWays: true}, 32, 32},
		{training.Options{Precision: "fp8", Weights: "16-bit"}, 64, 128},
		{training.Options{Precision: "mxfp8"}, 64, 66},
		{training.Options{Precision: "nvfp4"}, 64, 64 + 36},
	} {
		w := stages.Workload{
			Network: n, Layers: slices.Repeat([]int{1}, 7), Placement: graph.Placement{First: make([]int32, 7)},
			Samples: []int64{1}, Replicas: 2, Zero: 3, Training: c.training,
		}
		staged := w.Staged()
		require.Equal(t, []int64{2*norms + block*c.sent/32}, staged.Sync().Units[1].Gather, "%+v", c.training)
		require.EqualValues(t, 2*norms+block*c.held/32, staged.UnitBytes(staged.Stages[1].Flats[0]), "%+v", c.training)
		shares := int64(2*(2*100*64+64*9) + 4*block*c.sent/32)
		require.Equal(t, shares/2, memory.PersistentBreakdown(staged, 2)[0].Parameters, "%+v", c.training)
	}
}

// update returns the time of the optimizer's task.
func update(t *testing.T, m costmodel.Machine, staged *stages.Staged, g *graph.Graph) time.Duration {
	costs, err := costmodel.StepCosts(m, staged, g)
	require.NoError(t, err)
	for i := range int32(g.Len()) {
		if g.Task(i).Kind == graph.Optimizer {
			return costs.Task(new(g.Task(i))).Busy
		}
	}
	t.Fatal("no update")
	return 0
}
