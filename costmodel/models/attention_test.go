package models

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// Fused attention computes as published totals count, F twice the products of the
// square and I five times; it keeps no square, and one number in fp32 for a row.
func TestFlash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 6)
		heads := 2 * size.Draw(t, "heads")
		m := Model{Family: FamilyLlama, Layers: 1, Hidden: 16 * heads, Heads: heads, FFNHidden: 64, Vocab: 64, SequenceLength: 100 * size.Draw(t, "hundreds of tokens")}
		square, err := m.Network()
		require.NoError(t, err)
		m.Attention = AttentionFlash
		flash, err := m.Network()
		require.NoError(t, err)
		before, after := square.Layers[1], flash.Layers[1]
		assert.Equal(t, int64(before.FLOPs(network.Forward)), int64(after.FLOPs(network.Forward)))
		assert.Equal(t, int64(before.FLOPs(network.WeightGradient)), int64(after.FLOPs(network.WeightGradient)))
		core := int64(4 * m.SequenceLength * m.SequenceLength * m.Hidden)
		assert.Equal(t, int64(before.FLOPs(network.InputGradient))+core/2, int64(after.FLOPs(network.InputGradient)))
		bytes := func(l network.Layer) (n int64) {
			for _, b := range network.BufferBytes(l.Buffers, 2, 1) {
				n += b
			}
			return n
		}
		rows := int64(m.SequenceLength * heads)
		assert.Equal(t, bytes(before)-2*rows*int64(m.SequenceLength)+4*rows, bytes(after))
		assert.Empty(t, training.Options{Recompute: "selective"}.Repeated(after), "there is nothing to repeat")

		half, err := m.On(group.Group{Devices: 2})
		require.NoError(t, err)
		for _, p := range []network.Pass{network.Forward, network.InputGradient} {
			assert.Equal(t, int64(after.FLOPs(p)), 2*int64(half.Layers[1].FLOPs(p)))
		}
	})
}

// Tiles on the diagonal are computed whole, and a window leaves out what is before it.
func TestPairs(t *testing.T) {
	pairs := func(tokens, window int) int64 { return Model{SequenceLength: tokens, Window: window}.pairs() }
	require.EqualValues(t, 100*100, pairs(100, 0), "within one tile")
	require.EqualValues(t, 128*128*(1+2+3+4), pairs(512, 0))
	require.EqualValues(t, 128*128*(1+2+3+3), pairs(512, 256), "a window of two tiles reaches into a third")
	rapid.Check(t, func(t *rapid.T) {
		tokens, window := rapid.IntRange(1, 5000).Draw(t, "tokens"), rapid.IntRange(1, 5000).Draw(t, "window")
		assert.LessOrEqual(t, pairs(tokens, window), pairs(tokens, 0))
		assert.LessOrEqual(t, pairs(tokens, window), pairs(tokens+1, window))
		assert.LessOrEqual(t, pairs(tokens, window), pairs(tokens, window+1))
		assert.GreaterOrEqual(t, pairs(tokens, 0), int64(tokens)*int64(tokens+1)/2)
	})
}
