package hfconfig

import (
	"cmp"
	"fmt"
	"slices"

	"psim/costmodel/models"
)

// mixtureTypes lists the configuration classes of mixtures with shared experts.
func mixtureTypes() map[string]llamaType {
	experts, latent := mixtureSizes()
	return map[string]llamaType{
		"deepseek_v2": {
			llamaConfig: llamaConfig{
				Vocab: 32000, Positions: 2048, Hidden: 4096, Inner: 11008, Layers: 32, Heads: 32, Experts: new(64),
			},
			attentionBias: true, needs: latent, more: blockConfig{QLoraRank: new(1536)}, block: latentMixture,
		},
		"deepseek_v3": {
			llamaConfig: llamaConfig{
				Vocab: 129280, Positions: 4096, Hidden: 7168, Inner: 18432, Layers: 61, Heads: 128,
				Experts: new(256),
			},
			attentionBias: true, needs: latent,
			more:  blockConfig{QLoraRank: new(1536), Dense: 3, Groups: new(8), TopGroups: new(4)},
			block: biasedLatentMixture,
		},
		"glm4_moe": {
			llamaConfig: llamaConfig{
				Vocab: 151552, Positions: 131072, Hidden: 4096, Inner: 10944, Layers: 46, Heads: 96,
				KVHeads: new(8), Experts: new(128),
			},
			attentionBias: true, needs: experts, more: blockConfig{Dense: 1},
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.RouterBias, m.QKNorm = true, b.QKNorm
				m.QKVBias, m.AttentionBias = m.AttentionBias, false // no bias of the output
				return readMixture(m, b)
			},
		},
		"llama4_text": {
			llamaConfig: llamaConfig{
				Vocab: 202048, Positions: 4096 * 32, Hidden: 5120, Inner: 8192, Layers: 48, Heads: 40,
				KVHeads: new(8), HeadDim: new(128), Experts: new(16), PerToken: new(1),
			},
			attentionBias: true, needs: []string{"hidden_size", "num_hidden_layers", "intermediate_size"},
			more:  blockConfig{DenseInner: 16384, Chunk: new(8192), NoRopeEvery: new(4), QKNorm: true},
			block: llama4,
		},
	}
}

// mixtureSizes lists the keys that files of mixtures with shared experts have to give, and those of latent attention
// with them.
func mixtureSizes() (experts, latent []string) {
	experts = sizes("n_routed_experts|num_local_experts|num_experts", "num_experts_per_tok",
		"moe_intermediate_size", "n_shared_experts")
	return experts, append(slices.Clip(experts), "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
}

// latentMixture reads DeepSeek's blocks. Latent attention has as many heads of keys and values as
// heads, so a file may give that number but no other.
func latentMixture(m *models.Model, c llamaConfig, b blockConfig) error {
	if kv := value(c.KVHeads); kv != 0 && kv != c.Heads {
		return fmt.Errorf("num_key_value_heads = %d: latent attention has as many as num_attention_heads = %d",
			kv, c.Heads)
	}
	m.KVHeads, m.HeadDim = 0, 0
	m.QLoraRank, m.KVLoraRank = value(b.QLoraRank), b.KVLoraRank
	m.QKNopeHeadDim, m.QKRopeHeadDim, m.VHeadDim = b.NopeDim, b.RopeDim, b.ValueDim
	return cmp.Or(readMixture(m, b), positive("kv_lora_rank", &b.KVLoraRank))
}

// biasedLatentMixture reads DeepSeek-V3's blocks, whose routers have biases.
func biasedLatentMixture(m *models.Model, c llamaConfig, b blockConfig) error {
	m.RouterBias = true
	return latentMixture(m, c, b)
}

// readMixture reads which blocks have experts, and which experts are shared.
func readMixture(m *models.Model, b blockConfig) error {
	m.ExpertHidden, m.SharedExperts, m.DenseLayers = b.ExpertInner, value(b.Shared), b.Dense
	m.ExpertGroups, m.GroupsPerToken = value(b.Groups), value(b.TopGroups)
	if frequency := b.MoEFrequency; frequency != nil && *frequency != 1 {
		return fmt.Errorf("moe_layer_freq = %d is not supported; must be 1", *frequency)
	}
	return positive("moe_intermediate_size", &b.ExpertInner)
}

// llama4 reads Llama 4's blocks: intermediate_size is the size of an expert, one expert is shared, and
// every n-th block attends to all tokens, without positions.
func llama4(m *models.Model, c llamaConfig, b blockConfig) error {
	m.ExpertHidden, m.FFNHidden, m.SharedExperts = c.Inner, b.DenseInner, 1
	m.QKNorm, m.PlainQKNorm = b.QKNorm, b.QKNorm
	m.MoEEvery = value(b.MoEStep)
	if b.MoELayers != nil {
		every := max(1, m.MoEEvery)
		for i := range c.Layers {
			if slices.Contains(b.MoELayers, i) != ((i+1)%every == 0) {
				return fmt.Errorf("moe_layers: psim models experts only in every n-th block "+
					"(n is interleave_moe_layer_step = %d), and block %d does not fit this", every, i)
			}
		}
	}
	m.Window, m.Chunked = value(b.Chunk), value(b.Chunk) > 0
	if !m.Chunked {
		return nil
	}
	switch {
	case b.LayerTypes != nil:
		return readLayerTypes(m, b.LayerTypes)
	case len(b.NoRope) > 0:
		types := make([]string, len(b.NoRope))
		for i, rope := range b.NoRope {
			types[i] = []string{"full_attention", "chunked_attention"}[min(1, max(0, rope))]
		}
		return readLayerTypes(m, types)
	}
	m.FullAttentionEvery = value(b.NoRopeEvery)
	return positive("no_rope_layer_interval", b.NoRopeEvery)
}
