package arch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Counts of parameters as the sums of the tensors in the published checkpoints on Hugging
// Face, and what their reports say of a token's, in billions.
func TestPublishedCounts(t *testing.T) {
	for _, c := range []struct {
		preset     string
		parameters int64
		active     float64
	}{
		{"mixtral-8x7b", 46_702_792_704, 12.9},
		{"mixtral-8x22b", 140_620_634_112, 39.2},
		{"llama3-405b", 405_853_388_800, 405.9},
		{"qwen2.5-72b", 72_706_203_648, 72.7},
		{"qwen3-30b-a3b", 30_532_122_624, 3.4},
		{"qwen3-235b-a22b", 235_093_634_560, 22.2},
		{"deepseek-v3", 671_026_419_200, 37.6},
		{"gpt-oss-20b", 20_914_757_184, 4.2},
		{"gpt-oss-120b", 116_829_156_672, 5.7},
	} {
		n := preset(t, c.preset)
		assert.Equal(t, c.parameters, n.Parameters(), c.preset)
		assert.InDelta(t, c.active, float64(n.ActiveParameters())/1e9, 0.05, c.preset)
	}
}

// A block that is as another has its operations and buffers; one that is not has its own.
func TestBlocksShare(t *testing.T) {
	n, err := Model{Preset: "gpt-oss-20b", Layers: 4, Attention: AttentionFlash}.On(Group{Devices: 2, Sequence: true})
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1, 2, 1, 2, 5, 6}, Same(n.Layers))
	windowed, full := n.Layers[1].Ops, n.Layers[2].Ops
	for i, o := range windowed {
		if o.Class == Attention {
			assert.Less(t, o.Pairs, full[i].Pairs)
		}
	}
	n, err = Model{Preset: "deepseek-v3", Layers: 5, MTPLayers: 1}.Network()
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1, 1, 1, 4, 4, 6, 7, 8}, Same(n.Layers), "three dense blocks, two with experts")
	assert.Equal(t, Shape{2 * 4096, 7168}, n.Layers[7].Output)
	assert.Equal(t, []int{0, 0, 0, 0, 256, 256, 0, 256, 0}, experts(n.Layers))
}

func experts(layers []Layer) (list []int) {
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
		block := network(t, m).Layers[1]
		assert.Equal(t, 2*s*weights+2*2*s*s*(12+8), block.FLOPs(Forward), attention)
		assert.Equal(t, weights+2*h+10+6, block.Parameters(), attention)
	}
	input := network(t, m).Layers[1].FLOPs(InputGradient)
	assert.Equal(t, 2*s*weights+2*2*s*s*(3*12+2*8), input, "scores again, and gradients of q, k, v and of probabilities")
}

func TestBlockErrors(t *testing.T) {
	base := Model{Family: "mixtral", Layers: 2, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 128, SequenceLength: 16, Experts: 4, ExpertsPerToken: 1}
	for want, change := range map[string]func(*Model){
		"v_head_dim = 8: has no meaning without kv_lora_rank":          func(m *Model) { m.VHeadDim = 8 },
		"q_lora_rank = 8: has no meaning without kv_lora_rank":         func(m *Model) { m.QLoraRank = 8 },
		"kv_lora_rank = 8: needs qk_nope_head_dim, qk_rope_head_dim":   func(m *Model) { m.KVLoraRank = 8 },
		"head_dim = 8: has no meaning with kv_lora_rank":               func(m *Model) { m.KVLoraRank, m.HeadDim = 8, 8 },
		"dense_layers = 3: must be at most layers = 2":                 func(m *Model) { m.DenseLayers = 3 },
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
