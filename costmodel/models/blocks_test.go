package models

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// A block that is as another has its operations and buffers; one that is not has its own.
func TestBlocksShare(t *testing.T) {
	n, err := Model{Preset: "gpt-oss-20b", Layers: 4, Attention: AttentionFlash}.On(group.Group{Devices: 2, Sequence: true})
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1, 2, 1, 2, 5, 6}, network.Same(n.Layers))
	windowed, full := n.Layers[1].Ops, n.Layers[2].Ops
	for i, o := range windowed {
		if o.Class == network.Attention {
			assert.Less(t, o.Pairs, full[i].Pairs)
		}
	}
	n, err = Model{Preset: "deepseek-v3", Layers: 5, MTPLayers: 1}.Network()
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1, 1, 1, 4, 4, 6, 7, 8}, network.Same(n.Layers), "three dense blocks, two with experts")
	assert.Equal(t, network.Dims{2 * 4096, 7168}, n.Layers[7].Output)
	assert.Equal(t, []int{0, 0, 0, 0, 256, 256, 0, 256, 0}, experts(n.Layers))
}

func experts(layers []network.Layer) (list []int) {
	for _, l := range layers {
		list = append(list, l.Experts)
	}
	return list
}

// Latent attention by hand: products over 12 features of queries and keys and 8 of values.
func TestLatentAttention(t *testing.T) {
	m := Model{
		Family: "llama", Layers: 1, Hidden: 32, Heads: 2, FFNHidden: 64, Vocab: 16, SequenceLength: 16,
		KVLoraRank: 6, QLoraRank: 10, QKNopeHeadDim: 8, QKRopeHeadDim: 4, VHeadDim: 8,
	}
	const s, h = 16, 32
	weights := int64(h*10 + 10*2*12 + h*(6+4) + 6*2*(8+8) + 2*8*h + 3*h*64)
	for _, attention := range []string{AttentionUnfused, AttentionFlash} {
		m.Attention = attention
		block := build(t, m).Layers[1]
		assert.Equal(t, 2*s*weights+2*2*s*s*(12+8), int64(block.FLOPs(network.Forward)), attention)
		assert.Equal(t, weights+2*h+10+6, block.Parameters(), attention)
	}
	input := int64(build(t, m).Layers[1].FLOPs(network.InputGradient))
	assert.Equal(t, 2*s*weights+2*2*s*s*(3*12+2*8), input, "scores again, and gradients of q, k, v and of probabilities")
}

func TestBlockErrors(t *testing.T) {
	base := Model{Family: "mixtral", Layers: 2, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 16, Experts: 4, ExpertsPerToken: 1}
	for want, change := range map[string]func(*Model){
		"bidirectional = true: has no meaning with window": func(m *Model) { m.Bidirectional, m.Window = true, 4 },
		"block_sizes has 1 blocks: must have layers = 2": func(m *Model) {
			*m = Model{Family: "llama", Layers: 2, Hidden: 8, Heads: 4, FFNHidden: 8, Vocab: 8, SequenceLength: 8, BlockSizes: "1:8"}
		},
		`block_sizes has "-:-" for block 1: must be kv_heads:ffn_hidden`: func(m *Model) {
			*m = Model{Family: "llama", Layers: 2, Hidden: 8, Heads: 4, FFNHidden: 8, Vocab: 8, SequenceLength: 8, BlockSizes: "1:8 -:-"}
		},
		`block_sizes has "3:8" for block 1: kv_heads must divide`: func(m *Model) {
			*m = Model{Family: "llama", Layers: 2, Hidden: 8, Heads: 4, FFNHidden: 8, Vocab: 8, SequenceLength: 8, BlockSizes: "1:8 3:8"}
		},
		`block_sizes has "1:9" for block 0: ffn_hidden must be a dash`: func(m *Model) {
			*m = Model{Family: "llama", Layers: 2, Hidden: 8, Heads: 4, FFNHidden: 8, Vocab: 8, SequenceLength: 8, BlockSizes: "1:9 1:8"}
		},
		"mtp_layers = 1: psim does not model modules that predict with": func(m *Model) {
			*m = Model{Family: "llama", Layers: 2, Hidden: 8, Heads: 4, FFNHidden: 8, Vocab: 8, SequenceLength: 8, BlockSizes: "1:8 -:8", MTPLayers: 1}
		},
		"have no meaning with windows that has no letter W":            func(m *Model) { m.Windows, m.WindowHeads = "FF", 8 },
		"window_heads = 8: has no meaning without windows":             func(m *Model) { m.WindowHeads = 8 },
		"windows has 3 letters: must have layers = 2":                  func(m *Model) { m.Windows, m.Window = "FWF", 8 },
		"windows has 'X' at block 1":                                   func(m *Model) { m.Windows, m.Window = "FX", 8 },
		"windows: has no meaning without window":                       func(m *Model) { m.Windows = "FW" },
		"window_kv_heads = 3: must divide window_heads = 4":            func(m *Model) { m.Windows, m.Window, m.WindowKVHeads, m.WindowHeads = "FW", 8, 3, 4 },
		"window_sinks = true: has no meaning without sinks":            func(m *Model) { m.Windows, m.Window, m.WindowSinks = "FW", 8, true },
		"head_gate = true: has no meaning with attention_gate":         func(m *Model) { m.HeadGate, m.AttentionGate = true, true },
		"q_lora_rank = 8: has no meaning without kv_lora_rank":         func(m *Model) { m.QLoraRank = 8 },
		"kv_lora_rank = 8: needs qk_nope_head_dim, qk_rope_head_dim":   func(m *Model) { m.KVLoraRank = 8 },
		"head_dim = 8: has no meaning with kv_lora_rank":               func(m *Model) { m.KVLoraRank, m.HeadDim = 8, 8 },
		"dense_layers = 2, moe_every = 1: leave none of 2 blocks":      func(m *Model) { m.DenseLayers = 2 },
		"dense_layers = 0, moe_every = 3: leave none of 2 blocks":      func(m *Model) { m.MoEEvery = 3 },
		"dense_layers = 3, moe_every = 1: leave none of 2 blocks":      func(m *Model) { m.DenseLayers = 3 },
		"expert_groups = 3: must divide experts = 4":                   func(m *Model) { m.ExpertGroups = 3 },
		"groups_per_token = 3: must be at most expert_groups = 2":      func(m *Model) { m.ExpertGroups, m.GroupsPerToken = 2, 3 },
		"shared_experts = -1: must be 0 to 1000":                       func(m *Model) { m.SharedExperts = -1 },
		"full_attention_every = 2: has no meaning without window":      func(m *Model) { m.FullAttentionEvery = 2 },
		`parallel_block = true: has no meaning with family "mixtral"`:  func(m *Model) { m.ParallelBlock = true },
		`shared_experts = 1: has no meaning with family "llama"`:       func(m *Model) { m.Family, m.Experts, m.ExpertsPerToken, m.SharedExperts = "llama", 0, 0, 1 },
		"post_norms = true: has no meaning with parallel_block = true": func(m *Model) { *m = Model{Preset: "llama3-8b", PostNorms: true, ParallelBlock: true} },
	} {
		m := base
		change(&m)
		assert.ErrorContains(t, m.Validate(), want)
	}
}

// Whatever blocks have, tensor and sequence parallelism with experts on devices of their own
// divide all FLOPs and all bytes of activations but those of what every device makes whole:
// the products of all devices are those of one.
func TestDividedBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawBlocks(t)
		g := group.Group{Devices: rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "tensor"), Sequence: true, Expert: rapid.SampledFrom([]int{2, 4}).Draw(t, "expert"), ExpertTensor: 1}
		whole := build(t, m)
		part, err := m.On(g)
		require.NoError(t, err)
		for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
			assert.Equal(t, int64(whole.FLOPs(p)), int64(g.Devices)*int64(part.FLOPs(p)), p)
		}
		for i, l := range whole.Layers {
			assert.Equal(t, l.Experts, part.Layers[i].Experts)
			var experts, mine int64
			for _, x := range l.Params {
				if x.Expert {
					experts += x.Shape.Elements()
				}
			}
			for _, x := range part.Layers[i].Params {
				if x.Expert {
					mine += x.Shape.Elements()
				}
			}
			assert.Equal(t, experts, int64(g.Expert)*mine)
		}
		assert.Equal(t, network.Same(whole.Layers), network.Same(part.Layers))
	})
}

// drawBlocks draws a mixture with blocks of several kinds that four devices divide.
func drawBlocks(t *rapid.T) Model {
	m := Model{
		Family: "mixtral", Layers: rapid.IntRange(2, 5).Draw(t, "layers"), Hidden: 64, Heads: 8, KVHeads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 32,
		Experts: 8, ExpertsPerToken: 4, ExpertHidden: 48, SharedExperts: rapid.IntRange(0, 2).Draw(t, "shared"), DenseLayers: rapid.IntRange(0, 1).Draw(t, "dense"),
		MoEEvery: rapid.IntRange(0, 2).Draw(t, "every"), MTPLayers: rapid.IntRange(0, 2).Draw(t, "mtp"), QKNorm: rapid.Bool().Draw(t, "norm"), Attention: AttentionFlash,
		Window: 8 * rapid.IntRange(0, 1).Draw(t, "window"), PostNorms: rapid.Bool().Draw(t, "post"), MLPBias: rapid.Bool().Draw(t, "bias"),
	}
	if m.Window > 0 {
		m.FullAttentionEvery = rapid.IntRange(0, 3).Draw(t, "full")
	}
	if rapid.Bool().Draw(t, "latent") {
		m.KVHeads, m.QKNorm = 0, false
		m.KVLoraRank, m.QLoraRank, m.QKNopeHeadDim, m.QKRopeHeadDim, m.VHeadDim = 16, 24*rapid.IntRange(0, 1).Draw(t, "query"), 8, 4, 16
	}
	return m
}
