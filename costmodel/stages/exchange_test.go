package stages_test

import (
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

// Stages that take their tensors from a workload with another recomputation are those that are derived anew.
func TestStagedBeside(t *testing.T) {
	m := models.Model{Family: "mixtral", Layers: 6, Hidden: 64, Heads: 4, FFNHidden: 32, Vocab: 96, SequenceLength: 32, Experts: 8, ExpertsPerToken: 2}
	n, err := m.On(group.Group{Expert: 4})
	require.NoError(t, err)
	recomputes := []string{"none", "selective", "full", "moe", "moe_act,norm"}
	rapid.Check(t, func(t *rapid.T) {
		w := stages.Workload{
			Network: n, Layers: []int{3, 2, 3}, Placement: graph.InOrder(3), Samples: []int64{1, 2},
			Replicas: rapid.SampledFrom([]int{4, 8}).Draw(t, "replicas"), Zero: rapid.IntRange(0, 2).Draw(t, "zero"),
			Bucket: rapid.SampledFrom([]int64{0, 10_000, 1 << 30}).Draw(t, "bucket"), Overlap: rapid.Bool().Draw(t, "overlap"),
			OverlapGather: rapid.Bool().Draw(t, "gather"), Loop: rapid.Bool().Draw(t, "loop"),
		}
		w.Training.Precision = rapid.SampledFrom([]string{"fp32", "bf16", "fp8"}).Draw(t, "precision")
		other := w
		w.Training.Recompute = rapid.SampledFrom(recomputes).Draw(t, "recompute")
		other.Training.Recompute = rapid.SampledFrom(recomputes).Draw(t, "other")
		other.Samples = []int64{4}
		require.Equal(t, w.Staged(), w.StagedBeside(other.Staged()))
	})
}
