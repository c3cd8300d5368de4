package models

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
)

// Model FLOPs are two for every active parameter that multiplies and every token, and those
// of attention's square, whatever room experts have (Chowdhery et al. 2022, appendix B).
func TestModelFLOPs(t *testing.T) {
	for _, capacity := range []float64{0, 1, 1.5} {
		m := Model{
			Family: "mixtral", Layers: 3, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 32,
			Experts: 8, ExpertsPerToken: 2, SharedExperts: 1, DenseLayers: 1, Capacity: capacity,
		}
		n, err := m.Network()
		require.NoError(t, err)
		multiplied := n.ActiveParameters() - 128*64 - 7*64 // but the embedding and the norms
		assert.EqualValues(t, 2*32*multiplied+3*4*32*32*64, n.FLOPs(network.Forward), "capacity %g", capacity)
		computed := total(n.Layers, func(l network.Layer) int64 { return l.FLOPs(network.Forward) })
		if capacity < 1.1 {
			assert.Equal(t, n.FLOPs(network.Forward), computed)
		} else {
			assert.Less(t, n.FLOPs(network.Forward), computed)
		}
	}
}
