package stages_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/group"
	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// Recomputation of experts exchanges again before the backward of their layer, or of the
// last of the layers that are repeated together; that of other modules does not.
func TestExchangesAgain(t *testing.T) {
	m := models.Model{Family: "mixtral", Layers: 4, Hidden: 64, Heads: 4, FFNHidden: 32, Vocab: 96, SequenceLength: 32, Experts: 8, ExpertsPerToken: 2}
	n, err := m.On(group.Group{Expert: 4})
	require.NoError(t, err)
	for _, c := range []struct {
		training.Options
		layers []int // of all-to-alls of B in order, two of each
	}{
		{training.Options{}, []int{4, 3, 2, 1}},
		{training.Options{Recompute: "moe_act,norm"}, []int{4, 3, 2, 1}},
		{training.Options{Recompute: "moe"}, []int{4, 4, 3, 3, 2, 2, 1, 1}},
		{training.Options{Recompute: "full"}, []int{4, 4, 3, 3, 2, 2, 1, 1}},
		{training.Options{Recompute: "full", RecomputeLayers: 2}, []int{3, 4, 4, 3, 1, 2, 2, 1}},
		{training.Options{Recompute: "full", RecomputeLayers: 1, RecomputeMethod: training.RecomputeBlock}, []int{4, 3, 2, 1, 1}},
	} {
		w := stages.Workload{Network: n, Training: c.Options, Layers: []int{len(n.Layers)}, Placement: graph.InOrder(1), Samples: []int64{1}, Replicas: 4}
		staged := w.Staged()
		var layers []int
		exchanges := staged.Exchanges(0, graph.Backward)
		for i := 0; i < len(exchanges); i += 2 {
			require.Equal(t, exchanges[i], exchanges[i+1])
			layers = append(layers, exchanges[i].Layer)
		}
		require.Equal(t, c.layers, layers, "%+v", c.Options)
		require.Len(t, staged.Exchanges(0, graph.Forward), 8)
	}
}

// Stages that are taken from other workloads are those that are derived anew.
func TestStagedFrom(t *testing.T) {
	mixtral := models.Model{Family: "mixtral", Layers: 6, Hidden: 64, Heads: 4, FFNHidden: 32, Vocab: 96, SequenceLength: 32, Experts: 8, ExpertsPerToken: 2}
	gpt := models.Model{Family: "gpt", Layers: 5, Hidden: 64, Heads: 4, Vocab: 96, SequenceLength: 32}
	rapid.Check(t, func(t *rapid.T) {
		n, err := mixtral.On(group.Group{Expert: 4})
		if rapid.Bool().Draw(t, "gpt") {
			n, err = gpt.Network()
		}
		require.NoError(t, err)
		w := stages.Workload{
			Network: n, Bucket: rapid.SampledFrom([]int64{0, 10_000, 1 << 30}).Draw(t, "bucket"),
			Overlap: rapid.Bool().Draw(t, "overlap"), OverlapGather: rapid.Bool().Draw(t, "gather"),
			PerTensor: rapid.Bool().Draw(t, "per tensor"),
		}
		w.Training.Precision = rapid.SampledFrom([]string{"fp32", "bf16", "fp8"}).Draw(t, "precision")
		var known stages.Known
		for range rapid.IntRange(2, 6).Draw(t, "workloads") {
			w.Layers = slices.Clone(rapid.SampledFrom([][]int{{3, 2, 3}, {3, 3, 2}, {1, 2, 3, 2}, {3, 3, 1, 1}, {2, 1, 3, 2}, {1, 1, 1, 1, 1, 1, 1, 1}}).Draw(t, "layers"))
			if over := len(n.Layers) - 8; over != 0 {
				w.Layers[0] += over
			}
			w.Placement = graph.InOrder(len(w.Layers))
			if half := len(w.Layers) / 2; len(w.Layers) == 2*half {
				switch rapid.SampledFrom([]string{"in order", "looped", "v"}).Draw(t, "placement") {
				case "looped":
					copy(w.Placement.First[half:], w.Placement.First[:half])
				case "v":
					copy(w.Placement.First[half:], w.Placement.First[:half])
					slices.Reverse(w.Placement.First[half:])
				}
			}
			w.Samples = rapid.SampledFrom([][]int64{{1, 2}, {4}}).Draw(t, "samples")
			w.Replicas, w.Zero = rapid.SampledFrom([]int{1, 4, 8}).Draw(t, "replicas"), rapid.SampledFrom([]int{0, 1, 2, 3, 3}).Draw(t, "zero")
			w.Training.Recompute = rapid.SampledFrom([]string{"none", "selective", "full", "moe", "moe_act,norm"}).Draw(t, "recompute")
			trained := w
			trained.Network = w.Training.Trained(n)
			require.Equal(t, w.Staged(), trained.StagedFrom(&known, w.Training.Recompute))
			if sketch, ok := trained.SketchPasses(stages.CountParameters(trained.Network.Layers)); ok {
				requireSketched(t, w.Staged(), sketch)
			}
		}
	})
}

// requireSketched requires that a sketch has of every stage what does not list tensors.
func requireSketched(t require.TestingT, whole, sketch *stages.Staged) {
	for s := range whole.Stages {
		for _, k := range []graph.Kind{graph.Forward, graph.Backward} {
			require.Equal(t, whole.Exchanges(s, k), sketch.Exchanges(s, k))
		}
		require.Equal(t, whole.PartsOf(s, graph.Backward), sketch.PartsOf(s, graph.Backward))
		a, b := whole.Stages[s], sketch.Stages[s]
		flats := slices.Clone(a.Flats)
		for i := range flats {
			flats[i].Tensors = nil
		}
		require.Equal(t, flats, b.Flats)
		require.Equal(t, []any{a.Layers, a.Ranks, a.Parameters, a.Experts, a.Stored, a.Widest, a.Narrow, a.NarrowExperts, a.Units, a.Segments},
			[]any{b.Layers, b.Ranks, b.Parameters, b.Experts, b.Stored, b.Widest, b.Narrow, b.NarrowExperts, b.Units, b.Segments})
	}
}
