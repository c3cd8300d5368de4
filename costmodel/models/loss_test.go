package models

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/network"
)

// What a loss keeps from the forward to the backward, in bytes for each logit: 4 in one kernel; 2 + 4 + 4 as
// transformers does (16 bits, a copy in fp32, logarithms of probabilities or their gradient); 2, and 4 + 4 for an
// eighth, in chunks; 2 + 4 for a part as large as the head's input, fused, with the gradient of that input.
func TestLossKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Model{
			Family: FamilyLlama, Layers: 1, Heads: 1, Hidden: 64 << rapid.IntRange(0, 4).Draw(t, "hidden"), FFNHidden: 64,
			Vocab: 64 * rapid.IntRange(1, 400).Draw(t, "vocab"), SequenceLength: 2048,
		}
		m.Loss = rapid.SampledFrom([]string{"", LossFull, LossChunked, LossFused}).Draw(t, "loss")
		m.FP32Logits = rapid.Bool().Draw(t, "fp32 logits")
		n := build(t, m)
		head := n.Layers[len(n.Layers)-1]
		s, v, h := int64(m.SequenceLength), int64(m.Vocab), int64(m.Hidden)
		want := 4 * s * v
		switch {
		case m.Loss == LossChunked:
			want = 2*s*v + (4+4)*s*v/8
		case m.Loss == LossFused:
			parts := int64(1)
			for parts*h < v {
				parts *= 2
			}
			require.LessOrEqual(t, s/parts*v, s*h, "a part's logits are no more than the head's input")
			want = (2+4)*((s+parts-1)/parts)*v + 2*s*h
		case m.FP32Logits:
			want = (2 + 4 + 4) * s * v
		}
		require.Equal(t, want+4*s, network.BufferBytes(head.Buffers, 2, 1)[network.ForwardToInput])
	})
	// The issue of every 24 GB card: 5.3 GB for 2 × 2,048 tokens of Llama 3.
	m := Model{Preset: "llama3-8b", SequenceLength: 2048, FP32Logits: true}
	n := build(t, m)
	require.EqualValues(t, 5_253_365_760+2*4*2048,
		network.BufferBytes(n.Layers[len(n.Layers)-1].Buffers, 2, 2)[network.ForwardToInput])
}

// Losses differ in what they move; products are the same.
func TestLossMoves(t *testing.T) {
	bytes := func(loss string, fp32 bool) (bytes int64) {
		n := build(t, Model{Preset: "llama3-8b", SequenceLength: 2048, Loss: loss, FP32Logits: fp32})
		head := n.Layers[len(n.Layers)-1]
		require.Equal(t, "lm_head", head.Ops[0].Name)
		for _, o := range head.Ops[1:] {
			require.Zero(t, o.FLOPs(network.Forward))
			bytes += o.Bytes(network.Forward, 1, 2) + o.Bytes(network.InputGradient, 1, 2)
		}
		return bytes / (2048 * 128256)
	}
	require.EqualValues(t, 4+4, bytes(LossFull, false))
	require.EqualValues(t, 14+22, bytes(LossFull, true))
	require.EqualValues(t, 4+4, bytes(LossChunked, false))
	require.EqualValues(t, 4+2, bytes(LossFused, false))
}
