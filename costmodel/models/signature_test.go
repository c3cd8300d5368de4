package models_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
)

func signatures(t *testing.T, m models.Model) []string {
	t.Helper()
	n, err := m.Network()
	require.NoError(t, err)
	var list []string
	for _, l := range n.Distinct() {
		list = append(list, l.Signature())
	}
	return list
}

// The text is part of a file format.
func TestSignatureText(t *testing.T) {
	require.Equal(t, []string{
		"embedding 8 to 8x16, 2 operations, parameters 64x16 8x16",
		"gpt block 8x16 to 8x16, 2 heads, 12 operations, parameters 16 16 16x48 48 16x16 16 16 16 16x64 64 64x16 16",
		"chain 8x16 to 8x16, layer norm, parameters 16 16",
		"chain 8x16 to 8x64, product + cross entropy, parameters 64x16",
	}, signatures(t, models.Model{Family: "gpt", Layers: 3, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8}))
	list := signatures(t, models.Model{Family: "mlp", Layers: 4, Hidden: 12})
	require.Len(t, list, 3, "the first has no input gradient, the last a loss: %v", list)
	require.Contains(t, list[0], "product of the input")
}

// Whatever changes what a layer computes changes its signature; a tie or
// another depth does not.
func TestSignatureTellsApart(t *testing.T) {
	base := models.Model{Family: "gpt", Layers: 2, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8}
	of := func(change func(*models.Model)) []string {
		m := base
		change(&m)
		return signatures(t, m)
	}
	same := of(func(*models.Model) {})
	untied := false
	require.Equal(t, same, of(func(m *models.Model) { m.Tied = &untied }))
	require.Equal(t, same, of(func(m *models.Model) { m.Layers = 9 }))
	drop := of(func(m *models.Model) { m.Dropout = 0.1 })
	require.Equal(t, drop, of(func(m *models.Model) { m.Dropout = 0.5 }))
	block := same[1]
	for _, change := range []func(*models.Model){
		func(m *models.Model) { m.Hidden = 32 }, func(m *models.Model) { m.Heads = 4 },
		func(m *models.Model) { m.Dropout = 0.1 }, func(m *models.Model) { m.FFNHidden = 48 }, func(m *models.Model) { m.SequenceLength = 16 },
	} {
		require.NotContains(t, of(change), block)
	}
	require.Equal(t, block, of(func(m *models.Model) { m.Vocab = 65 })[1])
	require.NotEqual(t, same[3], of(func(m *models.Model) { m.Vocab = 65 })[3])
}
