package hfconfig

import (
	"cmp"
	"fmt"

	"psim/costmodel/models"
)

// layerNormTypes lists dense types with layer norms and rotary positions.
func layerNormTypes() map[string]llamaType {
	layerNorms := func(m *models.Model, _ llamaConfig, b blockConfig) error {
		m.Norm, m.Gated, m.AttentionBias, m.MLPBias = models.NormLayer, new(false), b.Bias, b.Bias
		return nil
	}
	return map[string]llamaType{
		"starcoder2": {
			llamaConfig: llamaConfig{
				Vocab: 49152, Positions: 4096, Hidden: 3072, Inner: 12288, Layers: 30, Heads: 24, KVHeads: new(2),
				Tied: true, Act: new("gelu_pytorch_tanh"),
			},
			windowed: true, needs: sizes(), more: blockConfig{Bias: true}, block: layerNorms,
		},
		"nemotron": {
			llamaConfig: llamaConfig{
				Vocab: 256000, Positions: 4096, Hidden: 6144, Inner: 24576, Layers: 32, Heads: 48, Act: new("relu2"),
			},
			attentionBias: true, mlpBias: true, needs: sizes(),
			block: func(m *models.Model, _ llamaConfig, _ blockConfig) error {
				m.Norm, m.Gated = models.NormLayer, new(false)
				return nil
			},
		},
		"stablelm": {
			llamaConfig: llamaConfig{
				Vocab: 50304, Positions: 4096, Hidden: 2560, Inner: 6912, Layers: 32, Heads: 32, KVHeads: new(32),
			},
			needs: sizes(), more: blockConfig{olderConfig: olderConfig{ParallelResidual: new(false)}},
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.Norm, m.QKVBias, m.ParallelBlock = models.NormLayer, b.UseQKVBias, *b.ParallelResidual
				return absent("qk_layernorm", b.KeyNorms)
			},
		},
	}
}

// furtherTypes lists dense types with the products of Llama's blocks, or without the gate.
func furtherTypes() map[string]llamaType {
	return map[string]llamaType{
		"arcee": {
			llamaConfig: llamaConfig{
				Vocab: 32000, Positions: 4096, Hidden: 2560, Inner: 18432, Layers: 32, Heads: 32, Act: new("relu2"),
			},
			attentionBias: true, mlpBias: true, needs: sizes(),
			block: func(m *models.Model, _ llamaConfig, _ blockConfig) error {
				m.Gated = new(false)
				return nil
			},
		},
		"helium": {
			llamaConfig: llamaConfig{
				Vocab: 48000, Positions: 4096, Hidden: 2560, Inner: 7040, Layers: 24, Heads: 20, KVHeads: new(20),
				HeadDim: new(128),
			},
			attentionBias: true, mlpBias: true, needs: sizes(),
			block: func(m *models.Model, _ llamaConfig, _ blockConfig) error { ofQueries(m); return nil },
		},
		"hunyuan_v1_dense": {
			llamaConfig: llamaConfig{
				Vocab: 290943, Positions: 2048, Hidden: 4096, Inner: 11008, Layers: 32, Heads: 32,
			},
			attentionBias: true, needs: sizes(),
			block: func(m *models.Model, _ llamaConfig, _ blockConfig) error { m.QKNorm = true; return nil },
		},
	}
}

// furtherMixtures lists mixtures whose blocks are those of others under other keys.
func furtherMixtures() map[string]llamaType {
	experts, _ := mixtureSizes()
	return map[string]llamaType{
		"hunyuan_v1_moe": {
			llamaConfig: llamaConfig{
				Vocab: 290943, Positions: 2048, Hidden: 4096, Inner: 11008, Layers: 32, Heads: 32,
				Experts: new(1), PerToken: new(1),
			},
			attentionBias: true, aliases: map[string]string{"moe_topk": "num_experts_per_tok"},
			needs: sizes("num_experts|num_local_experts", "moe_topk|num_experts_per_tok"),
			block: func(m *models.Model, _ llamaConfig, _ blockConfig) error {
				m.QKNorm, m.SharedExperts = true, 1
				return nil
			},
		},
		"ernie4_5_moe": {
			llamaConfig: llamaConfig{
				Vocab: 103424, Positions: 131072, Hidden: 2560, Inner: 12288, Layers: 28, Heads: 20, KVHeads: new(4),
				Tied: true, Experts: new(64), PerToken: new(6),
			},
			aliases: map[string]string{
				"moe_num_experts": "num_experts", "moe_k": "num_experts_per_tok",
				"moe_num_shared_experts": "n_shared_experts", "moe_layer_start_index": "first_k_dense_replace",
			},
			needs: sizes("moe_num_experts|num_experts", "moe_k|num_experts_per_tok", "moe_intermediate_size"),
			more:  blockConfig{Shared: new(2), Dense: 1, olderConfig: olderConfig{MoELast: -1, MoEInterval: 1}},
			block: ernieMixture,
		},
		"dots1": {
			llamaConfig: llamaConfig{
				Vocab: 152064, Positions: 2048, Hidden: 4608, Inner: 10944, Layers: 62, Heads: 32, KVHeads: new(32),
				Window: new(4096), Experts: new(1),
			},
			attentionBias: true, windowed: true, needs: experts, more: blockConfig{WindowFrom: new(62)},
			block: func(m *models.Model, _ llamaConfig, b blockConfig) error {
				m.QKNorm, m.RouterBias = true, true
				return cmp.Or(readMixture(m, b), readWindows(m, b))
			},
		},
	}
}

// furtherLatent lists a mixture with latent attention.
func furtherLatent() map[string]llamaType {
	_, latent := mixtureSizes()
	return map[string]llamaType{
		"glm4_moe_lite": {
			llamaConfig: llamaConfig{
				Vocab: 154880, Positions: 202752, Hidden: 2048, Inner: 10240, Layers: 47, Heads: 20, Experts: new(64),
				PerToken: new(4),
			},
			needs: latent, more: blockConfig{QLoraRank: new(768), Dense: 1, Groups: new(1), TopGroups: new(1)},
			block: func(m *models.Model, c llamaConfig, b blockConfig) (err error) {
				if b.MLPTypes != nil {
					b.Dense, err = leading(b.MLPTypes, "dense", c.Layers)
				}
				return cmp.Or(err, biasedLatentMixture(m, c, b))
			},
		},
	}
}

// ernieMixture reads ERNIE 4.5's mixture, in which the first blocks lack experts.
func ernieMixture(m *models.Model, c llamaConfig, b blockConfig) error {
	m.RouterBias = true
	switch {
	case b.MoELast != -1 && b.MoELast != c.Layers-1:
		return fmt.Errorf("moe_layer_end_index = %d: psim models blocks without experts before all others", b.MoELast)
	case b.MoEInterval != 1:
		return fmt.Errorf("moe_layer_interval = %d is not supported; must be 1", b.MoEInterval)
	}
	return cmp.Or(readMixture(m, b), absent("use_bias", b.Bias))
}
