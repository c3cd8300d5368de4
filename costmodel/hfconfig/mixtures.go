package hfconfig

import (
	"cmp"
	"errors"
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

// sparseTypes lists mixtures whose attention takes the tokens that an indexer chooses.
func sparseTypes() map[string]llamaType {
	_, latent := mixtureSizes()
	return map[string]llamaType{
		"deepseek_v32": {
			llamaConfig: llamaConfig{
				Vocab: 129280, Positions: 163840, Hidden: 7168, Inner: 18432, Layers: 61, Heads: 128, Experts: new(256),
			},
			attentionBias: true, needs: latent,
			more: blockConfig{
				QLoraRank: new(1536), Dense: 3, Groups: new(8), TopGroups: new(4),
				TopK: 2048, IndexHeads: 64, IndexDim: 128,
			},
			block: sparseMixture,
		},
		"glm_moe_dsa": {
			llamaConfig: llamaConfig{
				Vocab: 154880, Positions: 202752, Hidden: 6144, Inner: 12288, Layers: 78, Heads: 64, Experts: new(256),
			},
			attentionBias: true, needs: latent,
			more: blockConfig{
				QLoraRank: new(2048), Dense: 3, Groups: new(1), TopGroups: new(1),
				TopK: 2048, IndexHeads: 32, IndexDim: 128,
			},
			block: sparseMixture,
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

// sparseMixture reads the blocks of DeepSeek-V3.2 and GLM-5. In GLM-5.2 some take the choice of the block before.
func sparseMixture(m *models.Model, c llamaConfig, b blockConfig) error {
	m.IndexTopK, m.IndexHeads, m.IndexHeadDim = b.TopK, b.IndexHeads, b.IndexDim
	err := cmp.Or(positive("index_topk", &b.TopK), positive("index_n_heads", &b.IndexHeads),
		positive("index_head_dim", &b.IndexDim), readIndexers(m, b))
	if err == nil && b.MLPTypes != nil {
		b.Dense, err = leading(b.MLPTypes, "dense", c.Layers)
	}
	return cmp.Or(err, biasedLatentMixture(m, c, b))
}

// leading counts the first entries of mlp_layer_types that are a kind of MLP. Others must not be.
func leading(types []string, kind string, layers int) (n int, err error) {
	if len(types) != layers {
		return 0, fmt.Errorf("mlp_layer_types has %d entries: must have num_hidden_layers = %d", len(types), layers)
	}
	for n < len(types) && types[n] == kind {
		n++
	}
	if i := slices.Index(types[n:], kind); i >= 0 {
		return 0, fmt.Errorf("mlp_layer_types: psim models blocks without experts before all others, and block %d "+
			"does not fit this", n+i)
	}
	return n, nil
}

// readIndexers reads which blocks have an indexer of their own.
func readIndexers(m *models.Model, b blockConfig) error {
	types := b.Indexers
	if types == nil && b.IndexPattern != nil {
		for _, letter := range *b.IndexPattern {
			types = append(types, map[rune]string{'F': "full", 'S': "shared"}[letter])
		}
	}
	if types == nil {
		if every := value(b.IndexEvery); every > 1 {
			m.IndexEvery, m.IndexFirst = every, 2
			if b.IndexFirst != nil {
				m.IndexFirst = *b.IndexFirst
			}
		}
		return nil
	}
	if len(types) != m.Layers {
		return fmt.Errorf("indexer_types has %d entries: must have num_hidden_layers = %d", len(types), m.Layers)
	}
	first := 0
	for first < len(types) && types[first] == "full" {
		first++
	}
	if first == len(types) {
		return nil
	}
	m.IndexFirst, m.IndexEvery = first, len(types)
	if next := slices.Index(types[first:], "full"); next >= 0 {
		m.IndexEvery = next + 1
	}
	for i := first; i < len(types); i++ {
		if full := (i-first+1)%m.IndexEvery == 0; full != (types[i] == "full") {
			return fmt.Errorf("indexer_types: psim models an indexer in the first blocks and then in every n-th, and "+
				"block %d does not fit this", i)
		}
	}
	return nil
}

// readMixture reads which blocks have experts, and which experts are shared.
func readMixture(m *models.Model, b blockConfig) error {
	m.ExpertHidden, m.SharedExperts, m.DenseLayers = b.ExpertInner, value(b.Shared), b.Dense
	m.ExpertGroups, m.GroupsPerToken = value(b.Groups), value(b.TopGroups)
	if f := b.MoEFrequency; f != nil && (f.blocks != nil || f.every != 1) {
		return errors.New("moe_layer_freq is not supported here; must be 1")
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
		return readLayerTypes(m, b.LayerTypes, "sliding_attention", "chunked_attention")
	case len(b.NoRope) > 0:
		types := make([]string, len(b.NoRope))
		for i, rope := range b.NoRope {
			types[i] = []string{"full_attention", "chunked_attention"}[min(1, max(0, rope))]
		}
		return readLayerTypes(m, types, "chunked_attention")
	}
	m.FullAttentionEvery = value(b.NoRopeEvery)
	return positive("no_rope_layer_interval", b.NoRopeEvery)
}
