package stages_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// The head's table counts once on the rank that has the embedding, and a second
// time on any other.
func TestSplitHolds(t *testing.T) {
	n, err := models.Model{Family: "gpt", Layers: 1, Hidden: 4, Heads: 2, Vocab: 5, SequenceLength: 3}.Network()
	require.NoError(t, err)
	names := func(s stages.Split, stage int) (list []string) {
		for _, tensor := range s.Completed(stage) {
			list = append(list, tensor.Name)
		}
		return list
	}
	s := stages.Split{Network: n, Layers: []int{1, 1, 2}, Ranks: []int32{0, 1, 0}}
	require.Equal(t, []string{"wpe.weight", "wte.weight"}, names(s, 0))
	require.Len(t, names(s, 1), 12)
	require.Equal(t, []string{"ln_f.bias", "ln_f.weight"}, names(s, 2))
	require.Equal(t, 0, s.Owner("wte.weight"))
	require.Equal(t, -1, s.Owner("wte.bias"))
	s.Ranks = []int32{0, 1, 1}
	require.Equal(t, []string{"wte.weight", "ln_f.bias", "ln_f.weight"}, names(s, 2))
}

// A rank holds a tied tensor once, however many of its layers use it: the modules that predict more
// tokens, and a tied head. Its gradients are summed once over all ranks.
func TestSplitHoldsOnce(t *testing.T) {
	tied := true
	n, err := models.Model{
		Family: "llama", Layers: 2, Hidden: 4, Heads: 2, FFNHidden: 8, Vocab: 5, SequenceLength: 3,
		MTPLayers: 3, Tied: &tied,
	}.Network()
	require.NoError(t, err)
	const table = "embed_tokens.weight"
	for _, c := range []struct {
		layers []int // of embed, two blocks, norm, three modules, head
		ranks  []int32
		held   []int // copies of the table by stage
		sum    []int // stages over whose ranks its gradients are summed
	}{
		{[]int{8}, []int32{0}, []int{1}, nil},
		{[]int{4, 4}, []int32{0, 1}, []int{1, 1}, []int{0, 1}},
		{[]int{4, 2, 2}, []int32{0, 1, 0}, []int{1, 1, 0}, []int{0, 1}},
		{[]int{2, 3, 1, 2}, []int32{0, 1, 0, 1}, []int{1, 1, 0, 0}, []int{0, 1}},
		{[]int{4, 2, 2}, []int32{0, 1, 2}, []int{1, 1, 1}, []int{0, 1, 2}},
	} {
		work := stages.Workload{
			Network: n, Layers: c.layers, Placement: graph.Placement{First: c.ranks},
			Training: training.Options{Precision: "fp32"}, Samples: []int64{1}, Replicas: 2, Bucket: 1, Overlap: true,
		}
		staged := work.Staged()
		for s, st := range staged.Stages {
			held := 0
			for _, x := range st.Tensors {
				if x.Name == table {
					held++
				}
			}
			require.Equal(t, c.held[s], held, "%v, stage %d", c, s)
			require.Equal(t, st.Parameters, work.Sketch(stages.CountParameters(n.Layers)).Stages[s].Parameters)
		}
		if c.sum == nil {
			require.Empty(t, staged.Tied)
			continue
		}
		require.Len(t, staged.Tied, 1, "%v", c)
		require.Equal(t, c.sum, staged.Tied[0].Stages, "%v", c)
	}
}
