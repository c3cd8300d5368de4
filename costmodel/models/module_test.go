package models

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// bytesOf adds up what a block of the training keeps of a sample.
func bytesOf(t training.Options, l network.Layer) int64 {
	kept := network.BufferBytes(t.Kept(l), t.ActivationElement(), 1)
	return kept[network.ForwardToInput] + kept[network.ForwardToWeight]
}

// names lists the operations that are run again.
func repeatedNames(t training.Options, l network.Layer) (names []string) {
	for _, op := range t.Repeated(l) {
		names = append(names, op.Name)
	}
	return names
}

// What modules of a GPT's block save of its 34sh + 5as² bytes (Korthikanti et al. 2022, whose
// attention is core_attn), and what they run again.
func TestModulesOfGPT(t *testing.T) {
	m := Model{Family: "gpt", Layers: 2, Hidden: 64, Heads: 4, Vocab: 50, SequenceLength: 32, Dropout: 0.1}
	n, err := m.Network()
	require.NoError(t, err)
	block, s, h, a := n.Layers[1], int64(32), int64(64), int64(4)
	core := []string{"attn.scores", "attn.softmax", "attn.attn_dropout", "attn.context"}
	mlp := []string{"mlp.c_fc", "mlp.gelu", "mlp.c_proj"}
	for _, c := range []struct {
		modules string
		saved   int64
		names   []string
	}{
		{"none", 0, nil},
		{"core_attn", 5 * a * s * s, core},
		{"mlp", 16 * s * h, mlp},
		{"norm", 4 * s * h, []string{"ln_1", "ln_2"}},
		{"core_attn,mlp", 5*a*s*s + 16*s*h, append(core[:4:4], mlp...)},
		{"core_attn,mlp,norm", 5*a*s*s + 20*s*h, append(append([]string{"ln_1"}, core...), append([]string{"ln_2"}, mlp...)...)},
	} {
		trained := training.Options{Precision: "fp16", Recompute: c.modules}
		assert.NoError(t, trained.Validate())
		assert.NoError(t, trained.Check(n))
		assert.Equal(t, 34*s*h+5*a*s*s-c.saved, bytesOf(trained, block), c.modules)
		assert.Equal(t, c.names, repeatedNames(trained, block), c.modules)
		assert.Equal(t, bytesOf(training.Options{Precision: "fp16"}, n.Layers[3]), bytesOf(trained, n.Layers[3]), "the head is no block")
	}
}

// A fused core has no square to save: core_attn runs it again for the statistic of rows, and
// selective leaves it.
func TestModulesOfFlash(t *testing.T) {
	n, err := Model{Family: "gpt", Layers: 1, Hidden: 64, Heads: 4, Vocab: 50, SequenceLength: 32, Attention: AttentionFlash}.Network()
	require.NoError(t, err)
	block := n.Layers[1]
	assert.Empty(t, repeatedNames(training.Options{Recompute: "selective"}, block))
	list := training.Options{Recompute: "core_attn"}
	assert.Equal(t, []string{"attn.flash"}, repeatedNames(list, block))
	assert.Equal(t, bytesOf(training.Options{}, block)-4*4*32, bytesOf(list, block))
}

// Modules that a network has not are refused by name.
func TestModulesCheck(t *testing.T) {
	gpt, err := Model{Preset: "gpt2"}.Network()
	require.NoError(t, err)
	mlp, err := Model{Family: "mlp", Layers: 3, Hidden: 8}.Network()
	require.NoError(t, err)
	for want, c := range map[string]struct {
		training.Options
		network.Network
	}{
		`recompute = "mlp,moe": gpt2 has no experts for moe; it has core_attn, mlp, norm`:                      {training.Options{Recompute: "mlp,moe"}, gpt},
		`recompute = "mla_up_proj": gpt2 has no latent attention for mla_up_proj; it has core_attn, mlp, norm`: {training.Options{Recompute: "mla_up_proj"}, gpt},
		`recompute = "norm": mlp-3x8 has no blocks with norms for norm; use none or full`:                      {training.Options{Recompute: "norm"}, mlp},
		`recompute_layers = 2: is a number of blocks of a transformer, and mlp-3x8 has no blocks; set 0`:       {training.Options{Recompute: "full", RecomputeLayers: 2}, mlp},
	} {
		assert.EqualError(t, c.Check(c.Network), want)
	}
	assert.NoError(t, training.Options{Recompute: "selective"}.Check(mlp))
}

// Under tensor parallelism a dense MLP runs its collectives of the forward again.
func TestModulesExchange(t *testing.T) {
	n, err := Model{Family: "gpt", Layers: 1, Hidden: 64, Heads: 4, Vocab: 64, SequenceLength: 32}.On(group.Group{Devices: 2, Sequence: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"mlp.c_fc.enter", "mlp.c_fc", "mlp.gelu", "mlp.c_proj", "mlp.c_proj.leave"}, repeatedNames(training.Options{Recompute: "mlp"}, n.Layers[1]))
}
