package stages_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/frozen"
	"psim/costmodel/memory"
	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// stagedWith plans a llama with an adapter, a stage for every layer under ZeRO 3 and else one stage.
func stagedWith(t require.TestingT, m models.Model, o training.Options, zero, replicas int) *stages.Staged {
	n, err := m.Network()
	require.NoError(t, err)
	require.NoError(t, o.CheckFrozen(n))
	n = o.Adapted(n)
	w := stages.Workload{
		Network: n, Training: o, Layers: []int{len(n.Layers)}, Placement: graph.InOrder(1), Samples: []int64{1},
		Replicas: replicas, Zero: zero,
	}
	if zero == 3 {
		w.Layers, w.Placement.First = make([]int, len(n.Layers)), make([]int32, len(n.Layers))
		for i := range w.Layers {
			w.Layers[i] = 1
		}
	}
	return w.Staged()
}

// Frozen weights take their bytes and nothing for gradients, states or masters. Replicas sum the gradients of
// adapters alone; ZeRO 3 divides and gathers the frozen weights too, and scatters gradients of adapters.
func TestFrozenState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, f, blocks := 64*rapid.IntRange(1, 4).Draw(t, "heads"), 64*rapid.IntRange(1, 5).Draw(t, "ffn"), 2
		m := models.Model{
			Family: "llama", Layers: blocks, Hidden: h, Heads: h / 64, FFNHidden: f, Vocab: 640, SequenceLength: 64,
		}
		rank, replicas := rapid.IntRange(1, 32).Draw(t, "rank"), rapid.IntRange(1, 4).Draw(t, "replicas")
		zero := rapid.IntRange(0, 3).Draw(t, "zero")
		o := training.Options{Precision: "bf16", Adapter: training.Adapter{
			Kind: rapid.SampledFrom([]string{"lora", "qlora"}).Draw(t, "kind"), Rank: rank,
			Prepared: rapid.Bool().Draw(t, "prepared"), DoubleQuant: rapid.Bool().Draw(t, "double"),
		}}
		staged := stagedWith(t, m, o, zero, replicas)

		linear, norms := int64(blocks*(4*h*h+3*h*f)), int64(h*(2*blocks+1))
		adapters := int64(blocks * rank * (4*2*h + 3*(h+f)))
		rest := int64(2*640*h) + norms
		bytes := 2 * (linear + rest)
		if o.Adapter.Kind == "qlora" {
			bytes = frozen.NF4.Bytes(linear, 2)
			if o.Adapter.DoubleQuant {
				bytes = frozen.NF4Double.Bytes(linear, 2)
			}
			bytes += 2 * rest
			if o.Adapter.Prepared {
				bytes += 2 * rest
			}
		}
		divided := func(bytes, parts int64) float64 { return float64(bytes) / float64(parts) }
		got, n := memory.PersistentBreakdown(staged, replicas)[0], int64(replicas)
		parts := func(from int) int64 {
			if zero >= from {
				return n
			}
			return 1
		}
		slack := float64(20 * len(staged.Stages)) // rounding of every share
		require.InDelta(t, divided(2*adapters, parts(3))+divided(bytes, parts(3)), got.Parameters, slack)
		require.InDelta(t, divided(2*adapters, parts(2)), got.Gradients, slack)
		require.InDelta(t, divided(12*adapters, parts(1)), got.Optimizer, slack)

		sync := staged.Sync()
		if replicas == 1 {
			return
		}
		var summed, gathered, scattered int64
		for _, bytes := range sync.Buckets {
			for _, b := range bytes {
				summed += b
			}
		}
		for _, u := range sync.Units {
			for _, b := range u.Gather {
				gathered += b
			}
			for _, b := range u.Scatter {
				scattered += b
			}
		}
		if zero < 3 {
			require.Equal(t, 2*adapters, summed)
			return
		}
		require.InDelta(t, 2*adapters+bytes, gathered, slack)
		require.InDelta(t, 2*adapters, scattered, slack)
	})
}

// A frozen table that the head shares is held and gathered once where both are on one rank.
func TestFrozenTied(t *testing.T) {
	m := models.Model{Preset: "gpt2", SequenceLength: 64}
	o := training.Options{Precision: "bf16", Adapter: training.Adapter{Kind: "lora", Rank: 4}}
	plain := stagedWith(t, m, training.Options{Precision: "bf16"}, 0, 1)
	got := stagedWith(t, m, o, 0, 1)
	require.Equal(t, 2*plain.Stages[0].Parameters, got.Stages[0].Frozen.Bytes(2))
	require.Empty(t, got.Tied)

	sharded := stagedWith(t, m, o, 3, 2)
	last := len(sharded.Stages) - 1
	require.Contains(t, sharded.Stages[last].Units, 0, "the head gathers the table's unit")
}

// If the backward updates, the gradients of the widest layer are there at most. Paged states are the host's.
func TestUpdateInBackward(t *testing.T) {
	m := models.Model{Preset: "llama3-8b", SequenceLength: 64}
	o := training.Options{
		Precision: "bf16", MasterWeights: training.MastersNone, Optimizer: training.OptimizerAdamW8Bit,
		UpdateIn: training.UpdateInBackward,
	}
	staged := stagedWith(t, m, o, 0, 1)
	got := memory.PersistentBreakdown(staged, 1)[0]
	require.EqualValues(t, 2*128256*4096, got.Gradients)
	require.InEpsilon(t, float64(staged.Stages[0].Parameters)*(2+8./256), got.Optimizer, 1e-3)
	o.Optimizer = training.OptimizerPaged8Bit
	require.Zero(t, memory.PersistentBreakdown(stagedWith(t, m, o, 0, 1), 1)[0].Optimizer)
}
