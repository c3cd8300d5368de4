package stages_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/stages"
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
