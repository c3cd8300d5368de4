package models

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"psim/costmodel/network"
)

// Dropout adds operations, buffers and nothing else: no FLOPs, no parameters,
// nothing for W. Every mask has an operation that reads and writes its elements
// in F and in I, and a byte for each.
func TestDropoutAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawGPT(t)
		without := build(t, m)
		m.Dropout = rapid.Float64Range(1e-9, 1-1e-9).Draw(t, "dropout")
		with := build(t, m)
		assert.Equal(t, without.Parameters(), with.Parameters())
		for i, l := range with.Layers {
			plain := without.Layers[i]
			assert.Equal(t, plain.FLOPs(network.Forward), l.FLOPs(network.Forward))
			assert.Equal(t, plain.Traffic(network.WeightGradient, 3), l.Traffic(network.WeightGradient, 3))
			var moved, masks int64
			for _, b := range l.Buffers {
				if n := b.Shape.Elements(); strings.HasSuffix(b.Name, ".mask") {
					assert.Equal(t, n, b.Bytes(2))
					moved, masks = moved+2*n, masks+n
				}
			}
			for _, p := range []network.Pass{network.Forward, network.InputGradient} {
				assert.Equal(t, moved, l.Traffic(p, 1)-plain.Traffic(p, 1))
				for _, element := range []int64{2, 4} {
					assert.Equal(t, element*moved+masks, bytesMoved(l, p, element)-bytesMoved(plain, p, element))
				}
			}
			assert.Equal(t, moved > 0, l.Kind == network.KindEmbedding || l.Kind == network.KindGPTBlock)
		}
	})
}

// The names are those of Hugging Face's modules, in the order of the forward.
func TestDropoutNames(t *testing.T) {
	n := build(t, Model{Preset: "gpt2", Dropout: 0.1})
	var names []string
	for _, l := range n.Layers[:2] {
		for _, op := range l.Ops {
			names = append(names, op.Name)
		}
	}
	assert.Equal(t, []string{
		"wte", "wpe", "drop",
		"ln_1", "attn.c_attn", "attn.scores", "attn.softmax", "attn.attn_dropout", "attn.context",
		"attn.c_proj", "attn.resid_dropout", "attn.residual",
		"ln_2", "mlp.c_fc", "mlp.gelu", "mlp.c_proj", "mlp.dropout", "mlp.residual",
	}, names)
}

// bytes counts what a pass over a sample moves, where an element takes so many.
func bytesMoved(l network.Layer, p network.Pass, element int64) int64 {
	return total(l.Ops, func(o network.Op) int64 { return o.Bytes(p, 1, element) })
}
