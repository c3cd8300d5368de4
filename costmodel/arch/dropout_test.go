package arch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// Dropout adds operations, buffers and nothing else: no FLOPs, no parameters,
// nothing for W. Every mask has an operation that reads and writes its elements
// in F and in I, and a byte for each.
func TestDropoutAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawGPT(t)
		without := network(t, m)
		m.Dropout = rapid.Float64Range(1e-9, 1-1e-9).Draw(t, "dropout")
		with := network(t, m)
		assert.Equal(t, without.Parameters(), with.Parameters())
		for i, l := range with.Layers {
			plain := without.Layers[i]
			assert.Equal(t, plain.FLOPs(Forward), l.FLOPs(Forward))
			assert.Equal(t, plain.Traffic(WeightGradient, 3), l.Traffic(WeightGradient, 3))
			var moved, masks int64
			for _, b := range l.Buffers {
				if n := b.Shape.Elements(); strings.HasSuffix(b.Name, ".mask") {
					assert.Equal(t, n, b.Bytes(2))
					moved, masks = moved+2*n, masks+n
				}
			}
			for _, p := range []Pass{Forward, InputGradient} {
				assert.Equal(t, moved, l.Traffic(p, 1)-plain.Traffic(p, 1))
				for _, element := range []int64{2, 4} {
					assert.Equal(t, element*moved+masks, l.bytes(p, element)-plain.bytes(p, element))
				}
			}
			assert.Equal(t, moved > 0, l.Kind == KindEmbedding || l.Kind == KindGPTBlock)
		}
	})
}

// The names are those of Hugging Face's modules, in the order of the forward.
func TestDropoutNames(t *testing.T) {
	n := network(t, Model{Preset: "gpt2", Dropout: 0.1})
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
func (l Layer) bytes(p Pass, element int64) int64 {
	return sum(l.Ops, func(o Op) int64 { return o.Bytes(p, 1, element) })
}
