package models

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// deepSeek is a small network with all that modules name: a dense block and one with
// experts, two of them shared, latent attention in one kernel.
func deepSeek(t *testing.T, g group.Group) network.Network {
	m := Model{
		Family: "mixtral", Layers: 2, Hidden: 64, Heads: 4, FFNHidden: 128, Vocab: 96, SequenceLength: 32, Attention: AttentionFlash,
		QLoraRank: 24, KVLoraRank: 16, QKNopeHeadDim: 8, QKRopeHeadDim: 4, VHeadDim: 8,
		Experts: 8, ExpertsPerToken: 2, ExpertHidden: 32, SharedExperts: 2, DenseLayers: 1,
	}
	n, err := m.On(g)
	require.NoError(t, err)
	return n
}

// What modules of blocks of DeepSeek-V3's kind save, in elements of 16 bits of a sample, and
// what they run again.
func TestModulesOfDeepSeek(t *testing.T) {
	n := deepSeek(t, group.Group{})
	const s, h, a, dense, shared, expert = 32, 64, 4, 128, 2 * 32, 32
	routed := 2 * s // two experts a token
	experts := s*8 + routed*h*2 + 4*routed*expert + 4*s*shared
	for modules, c := range map[string]struct {
		dense, mixture int
		again          string // operations of the mixture's block
	}{
		"core_attn":      {2 * a * s, 2 * a * s, "self_attn.flash"},
		"mlp":            {4 * s * dense, 0, ""},
		"moe":            {0, experts, "mlp.shared_experts.gate_proj … mlp.sum"},
		"moe_act":        {0, 2 * routed * expert, "mlp.experts.silu … mlp.experts.gate"},
		"shared_experts": {0, 4 * s * shared, "mlp.shared_experts.gate_proj … mlp.shared_experts.down_proj"},
		"norm":           {2 * s * h, 2 * s * h, "input_layernorm … post_attention_layernorm"},
		"mla_up_proj":    {s * a * (12 + 12 + 8), s * a * (12 + 12 + 8), "self_attn.q_b_proj … self_attn.expand"},
		"moe,moe_act":    {0, experts, "mlp.shared_experts.gate_proj … mlp.sum"},
	} {
		trained := training.Options{Precision: "bf16", Recompute: modules}
		require.NoError(t, trained.Validate())
		require.NoError(t, trained.Check(n))
		for i, saved := range []int{c.dense, c.mixture} {
			block := n.Layers[1+i]
			assert.EqualValues(t, 2*saved, bytesOf(training.Options{Precision: "bf16"}, block)-bytesOf(trained, block), "%s of %s", modules, block.Name)
		}
		names := repeatedNames(trained, n.Layers[2])
		switch {
		case c.again == "":
			assert.Empty(t, names)
		case len(names) == 1:
			assert.Equal(t, c.again, names[0])
		default:
			assert.Equal(t, c.again, names[0]+" … "+names[len(names)-1])
		}
	}
}

// A mixture that is run again exchanges again: dispatch and combine, and what tensor groups
// do within it; its activation function does not.
func TestModulesDispatch(t *testing.T) {
	exchanges := func(g group.Group, modules string) (names []string) {
		for _, name := range repeatedNames(training.Options{Recompute: modules}, deepSeek(t, g).Layers[2]) {
			if _, last, _ := strings.Cut(name, "mlp."); name == "mlp.dispatch" || name == "mlp.combine" || strings.HasSuffix(last, "er") || strings.HasSuffix(last, "leave") {
				names = append(names, name)
			}
		}
		return names
	}
	assert.Equal(t, []string{"mlp.dispatch", "mlp.combine"}, exchanges(group.Group{Expert: 4}, "moe"))
	assert.Empty(t, exchanges(group.Group{Expert: 4}, "moe_act"))
	assert.Empty(t, exchanges(group.Group{Expert: 4}, "shared_experts"))
	assert.Equal(t, []string{"mlp.shared_experts.gate_proj.enter", "mlp.shared_experts.down_proj.leave", "mlp.dispatch", "mlp.combine"},
		exchanges(group.Group{Devices: 2, Sequence: true, Expert: 4}, "moe"))
}

// Blocks of several kinds are all marked: whatever a module is not, full repeats more.
func TestModulesAreParts(t *testing.T) {
	n := deepSeek(t, group.Group{})
	for _, l := range n.Layers {
		for _, m := range network.ModuleNames() {
			part := training.Options{Recompute: m.Name}
			assert.LessOrEqual(t, len(part.Repeated(l)), len(training.Options{Recompute: "full"}.Repeated(l)), m.Name)
			assert.LessOrEqual(t, bytesOf(part, l), bytesOf(training.Options{}, l))
		}
	}
}
