package hfconfig

import (
	"cmp"
	"fmt"

	"psim/costmodel/models"
)

// A deltaConfig holds the keys of types with gated delta nets.
type deltaConfig struct {
	DeltaKeyHeads    int   `json:"linear_num_key_heads"`
	DeltaValueHeads  int   `json:"linear_num_value_heads"`
	DeltaKeyDim      int   `json:"linear_key_head_dim"`
	DeltaValueDim    int   `json:"linear_value_head_dim"`
	DeltaConvolution int   `json:"linear_conv_kernel_dim"`
	FullInterval     *int  `json:"full_attention_interval"`
	OutputGate       *bool `json:"attn_output_gate"`
}

// deltaTypes lists the types whose blocks have gated delta nets in place of attention, except every n-th.
func deltaTypes() map[string]llamaType {
	delta := blockConfig{deltaConfig: deltaConfig{
		DeltaKeyHeads: 16, DeltaValueHeads: 32, DeltaKeyDim: 128, DeltaValueDim: 128, DeltaConvolution: 4,
		FullInterval: new(4), OutputGate: new(true),
	}}
	mixture := delta
	mixture.ExpertInner, mixture.SharedInner = 512, 512
	next := []string{"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
		"num_experts|num_local_experts", "num_experts_per_tok", "moe_intermediate_size"}
	return map[string]llamaType{
		"qwen3_next": {
			llamaConfig: llamaConfig{
				Vocab: 151936, Positions: 32768, Hidden: 2048, Inner: 5632, Layers: 48, Heads: 16,
				KVHeads: new(2), HeadDim: new(256), Experts: new(512), PerToken: new(10),
			},
			attentionBias: true, needs: next, more: mixture, block: deltaMixture,
		},
		"qwen3_5_text": {
			llamaConfig: llamaConfig{
				Vocab: 248320, Positions: 32768, Hidden: 4096, Inner: 12288, Layers: 32, Heads: 16,
				KVHeads: new(4), HeadDim: new(256),
			},
			attentionBias: true, needs: sizes(), more: delta, block: deltaBlocks,
		},
		"qwen3_5_moe_text": {
			llamaConfig: llamaConfig{
				Vocab: 248320, Positions: 32768, Hidden: 2048, Inner: 512, Layers: 40, Heads: 16,
				KVHeads: new(2), HeadDim: new(256), Experts: new(256), PerToken: new(8),
			},
			attentionBias: true, needs: next, more: mixture, block: deltaMixture,
		},
	}
}

// deltaBlocks reads the blocks of Qwen3-Next and Qwen3.5, whose attention has a gate.
func deltaBlocks(m *models.Model, _ llamaConfig, b blockConfig) error {
	m.QKNorm, m.AttentionGate = true, true
	m.DeltaKeyHeads, m.DeltaValueHeads = b.DeltaKeyHeads, b.DeltaValueHeads
	m.DeltaKeyDim, m.DeltaValueDim, m.DeltaConvolution = b.DeltaKeyDim, b.DeltaValueDim, b.DeltaConvolution
	if b.OutputGate != nil && !*b.OutputGate {
		return fmt.Errorf("attn_output_gate = false is not supported; must be true")
	}
	err := cmp.Or(positive("linear_num_key_heads", &b.DeltaKeyHeads),
		positive("linear_num_value_heads", &b.DeltaValueHeads), positive("linear_key_head_dim", &b.DeltaKeyDim),
		positive("linear_value_head_dim", &b.DeltaValueDim),
		positive("linear_conv_kernel_dim", &b.DeltaConvolution), positive("full_attention_interval", b.FullInterval))
	if err != nil {
		return err
	}
	if b.LayerTypes != nil {
		return readLayerTypes(m, b.LayerTypes, "linear_attention")
	}
	m.FullAttentionEvery = value(b.FullInterval)
	return nil
}

// deltaMixture reads such blocks with experts. Shared experts have a gate.
func deltaMixture(m *models.Model, c llamaConfig, b blockConfig) error {
	if err := cmp.Or(qwen3Mixture(m, c, b), deltaBlocks(m, c, b), gatedShared(m, b)); err != nil {
		return err
	}
	return positive("moe_intermediate_size", &b.ExpertInner)
}

// gatedShared reads the width of shared experts, which Qwen gives in place of their number.
func gatedShared(m *models.Model, b blockConfig) error {
	if err := sharedWidth(m, "shared_expert_intermediate_size", b.SharedInner, b.ExpertInner); err != nil {
		return err
	}
	m.SharedExpertGate = m.SharedExperts > 0
	return nil
}

// sharedWidth takes shared experts of a width as experts of the width of others.
func sharedWidth(m *models.Model, key string, width, each int) error {
	if width < 0 || each < 1 || width%each != 0 {
		return fmt.Errorf("%s = %d: psim models shared experts as wide as others (moe_intermediate_size = %d), or a "+
			"multiple of it", key, width, each)
	}
	m.SharedExperts = width / each
	return nil
}
