package models

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
		assert.EqualValues(t, 2*32*multiplied+3*4*32*32*64, int64(n.FLOPs(network.Forward)), "capacity %g", capacity)
		computed := total(n.Layers, func(l network.Layer) int64 { return int64(l.FLOPs(network.Forward)) })
		if capacity < 1.1 {
			assert.Equal(t, int64(n.FLOPs(network.Forward)), computed)
		} else {
			assert.Less(t, int64(n.FLOPs(network.Forward)), computed)
		}
	}
}

// A sequence of 262,144 tokens on 405 billion parameters is counted, and one of 1,048,576, whose FLOPs
// pass 63 bits: attention's square is 4·s²·h in every block, and products 2·s times their weights.
func TestFLOPsOfLongSequences(t *testing.T) {
	const s, blocks, h, vocab = 262144, 126, 16384, 128256
	for _, sequence := range []float64{s, 4 * s} {
		n, err := Model{Preset: "llama3-405b", SequenceLength: int(sequence), Attention: "flash"}.Network()
		require.NoError(t, err)
		weights := float64(n.Parameters()) - vocab*h - (2*blocks+1)*h
		want := 2*sequence*weights + blocks*4*sequence*sequence*h
		require.InEpsilon(t, want, n.FLOPs(network.Forward), 1e-12)
		require.Equal(t, sequence > s, want > math.MaxInt64)
	}
}

// TestModelFLOPsOfWindows counts tokens one by one: each has as many keys as its window or chunk, and all of the
// sequence if that is shorter. Kernels do not matter, and what is computed stays the whole square.
func TestModelFLOPsOfWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Model{
			Family: "llama", Layers: 4, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128,
			SequenceLength: rapid.IntRange(1, 300).Draw(t, "sequence"), Window: rapid.IntRange(1, 300).Draw(t, "window"),
			Chunked: rapid.Bool().Draw(t, "chunked"), FullAttentionEvery: rapid.IntRange(0, 3).Draw(t, "every"),
			Attention: rapid.SampledFrom([]string{AttentionFlash, AttentionUnfused}).Draw(t, "attention"),
		}
		s, w := m.SequenceLength, m.Window
		keys, windowed := 0, 0
		for token := range s {
			seen := min(w, s)
			if m.Chunked {
				seen = min(w, s-token/w*w)
			}
			keys += seen
		}
		for block := range m.Layers {
			if every := m.FullAttentionEvery; every == 0 || (block+1)%every != 0 {
				windowed++
			}
		}
		n, err := m.Network()
		require.NoError(t, err)
		whole := n.FLOPs(network.Forward)
		skipped := 4 * 64 * windowed * (s*s - keys) // two products of 64 features
		require.InEpsilon(t, 3*(whole-float64(skipped)), n.ModelFLOPs(), 1e-12)

		m.Window, m.Chunked, m.FullAttentionEvery = 0, false, 0
		n, err = m.Network()
		require.NoError(t, err)
		require.Equal(t, whole, n.FLOPs(network.Forward))
		require.Equal(t, 3*whole, n.ModelFLOPs())
	})
}
