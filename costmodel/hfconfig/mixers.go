package hfconfig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"psim/costmodel/models"
)

// mixerTypes lists types with Mamba-2 mixers, alone or in turns with attention. A block with a mixer and an MLP has
// two letters in the pattern.
func mixerTypes() map[string]llamaType {
	mixers := patternConfig{
		MambaHeads: 128, MambaStates: 256, MambaGroups: 1, MambaConvolution: 4, MambaChunk: 256,
		ConvolutionBias: new(true), Expand: 2,
	}
	names := mixerNames()
	granite := mixers
	granite.MLPWidth = 1024
	falcon := mixers
	falcon.Inner, falcon.MixerNorm = 1024, new(false)
	alone := patternConfig{
		MambaHeads: 128, MambaHeadDim: 64, MambaStates: 128, MambaGroups: 8, MambaConvolution: 4, MambaChunk: 256,
		ConvolutionBias: new(true), Expand: 2,
	}
	return map[string]llamaType{
		"mamba2": {
			llamaConfig: llamaConfig{Vocab: 32768, Positions: 4096, Hidden: 4096, Inner: 1, Layers: 64, Heads: 1},
			aliases: map[string]string{
				"num_heads": "mamba_num_heads", "head_dim": "mamba_head_dim", "state_size": "ssm_state_size",
				"expand": "mamba_expand",
			},
			needs:       []string{"vocab_size", "hidden_size", "num_hidden_layers", "num_heads"},
			mixersAlone: true, more: blockConfig{patternConfig: alone}, block: mixersAlone,
		},
		"bamba": {
			llamaConfig: llamaConfig{
				Vocab: 128000, Positions: 262144, Hidden: 4096, Inner: 14336, Layers: 32, Heads: 32, KVHeads: new(8),
			},
			attentionBias: true, mlpBias: true, aliases: names, needs: sizes("attn_layer_indices"),
			more: blockConfig{patternConfig: mixers}, block: bamba,
		},
		"falcon_h1": {
			llamaConfig: llamaConfig{
				Vocab: 128000, Positions: 8192, Hidden: 4096, Inner: 14336, Layers: 32, Heads: 32, KVHeads: new(8),
			},
			attentionBias: true, mlpBias: true, aliases: names, needs: sizes("mamba_d_ssm"),
			more: blockConfig{patternConfig: falcon}, block: falconH1,
		},
		"granitemoehybrid": {
			llamaConfig: llamaConfig{
				Vocab: 32000, Positions: 2048, Hidden: 4096, Inner: 11008, Layers: 32, Heads: 32,
				Experts: new(8), PerToken: new(2),
			},
			attentionBias: true, maybeDense: true, aliases: names, needs: sizes("layer_types|layers_block_type"),
			more: blockConfig{patternConfig: granite}, block: graniteHybrid,
		},
	}
}

// kimiTypes lists Kimi Linear, which mixes Kimi delta attention and latent attention.
func kimiTypes() map[string]llamaType {
	_, latent := mixtureSizes()
	return map[string]llamaType{
		"kimi_linear": {
			llamaConfig: llamaConfig{
				Vocab: 163840, Positions: 1048576, Hidden: 2304, Inner: 9216, Layers: 27, Heads: 32, Experts: new(256),
				PerToken: new(8),
			},
			aliases: map[string]string{
				"num_experts_per_token": "num_experts_per_tok", "num_shared_experts": "n_shared_experts",
				"num_expert_group": "n_group", "model_max_length": "max_position_embeddings",
			},
			needs: slices.DeleteFunc(latent, func(key string) bool {
				return key == "n_shared_experts" || key == "num_experts_per_tok"
			}),
			more: blockConfig{
				Dense: 1, Shared: new(1), Groups: new(1), TopGroups: new(1), patternConfig: patternConfig{
					LinearHeads: 32, LinearHeadDim: 128,
				}, deltaConfig: deltaConfig{DeltaConvolution: 4},
			},
			block: kimiLinear,
		},
	}
}

// mixerNames lists what other types than Nemotron-H call the keys of mixers.
func mixerNames() map[string]string {
	return map[string]string{
		"mamba_n_heads": "mamba_num_heads", "mamba_d_head": "mamba_head_dim", "mamba_n_groups": "n_groups",
		"mamba_d_state": "ssm_state_size", "mamba_d_conv": "conv_kernel", "mamba_chunk_size": "chunk_size",
		"mamba_conv_bias": "use_conv_bias",
	}
}

// mixersAlone reads Mamba-2 without attention and MLPs.
func mixersAlone(m *models.Model, _ llamaConfig, b blockConfig) error {
	if inner := b.Expand * m.Hidden; b.MambaHeads*b.MambaHeadDim != inner {
		return fmt.Errorf("num_heads × head_dim = %d: must be expand × hidden_size = %d", b.MambaHeads*b.MambaHeadDim,
			inner)
	}
	m.PositionEmbedding, m.Pattern = models.PositionsNone, strings.Repeat("M", m.Layers)
	m.HeadDim = 1 // no block has attention
	return cmp.Or(readMixers(m, b), absent("use_bias", b.Bias))
}

// kimiLinear reads blocks with Kimi delta attention or latent attention, and experts after the first ones. What a file
// calls linear_attn_config counts blocks from one.
func kimiLinear(m *models.Model, c llamaConfig, b blockConfig) error {
	if err := biasedLatentMixture(m, c, b); err != nil {
		return err
	}
	if b.NoPositions != nil && !*b.NoPositions {
		return errors.New("mla_use_nope = false is not supported; must be true")
	}
	m.DeltaChannels, m.DeltaConvolution = true, b.DeltaConvolution
	m.DeltaKeyHeads, m.DeltaKeyDim = b.LinearHeads, b.LinearHeadDim
	full, err := latentBlocks(m, b)
	if err != nil {
		return err
	}
	if b.MLPTypes != nil {
		dense, err := leading(b.MLPTypes, "dense", m.Layers)
		if err != nil {
			return err
		}
		m.DenseLayers = dense
	}
	if n := m.DenseLayers; n < 0 || n >= m.Layers {
		return fmt.Errorf("first_k_dense_replace = %d: must be 0 to %d", n, m.Layers-1)
	}
	m.DeltaValueHeads, m.DeltaValueDim = m.DeltaKeyHeads, m.DeltaKeyDim
	var words []string
	for i := range m.Layers {
		mixer, second := byte('G'), byte('E')
		if full(i) {
			mixer = '*'
		}
		if i < m.DenseLayers {
			second = '-'
		}
		words = append(words, string([]byte{mixer, second}))
	}
	m.Pattern, m.DenseLayers = strings.Join(words, " "), 0
	return cmp.Or(positive("linear_attn_config.num_heads", &m.DeltaKeyHeads),
		positive("linear_attn_config.head_dim", &m.DeltaKeyDim))
}

// latentBlocks says which of Kimi Linear's blocks have latent attention.
func latentBlocks(m *models.Model, b blockConfig) (full func(int) bool, err error) {
	full = func(i int) bool { return i > 0 && i%4 == 0 }
	switch l := b.LinearAttention; {
	case l != nil:
		m.DeltaKeyHeads, m.DeltaKeyDim = l.Heads, l.HeadDim
		m.DeltaConvolution = cmp.Or(l.Convolution, m.DeltaConvolution)
		full = func(i int) bool { return slices.Contains(l.Full, i+1) }
		if err := oneMixerEach(l.Full, l.Delta, m.Layers); err != nil {
			return nil, err
		}
	case b.LayerTypes != nil && len(b.LayerTypes) != m.Layers:
		return nil, fmt.Errorf("layer_types has %d entries: must have num_hidden_layers = %d",
			len(b.LayerTypes), m.Layers)
	case b.LayerTypes != nil:
		for i, word := range b.LayerTypes {
			if word != "full_attention" && word != "linear_attention" {
				return nil, fmt.Errorf("layer_types has %q for block %d: must be linear_attention or full_attention",
					word, i)
			}
		}
		full = func(i int) bool { return b.LayerTypes[i] == "full_attention" }
	}
	return full, nil
}

// oneMixerEach requires two lists of blocks, counted from one, that have every block once.
func oneMixerEach(full, delta []int, blocks int) error {
	const section = "linear_attn_config"
	times := make([]int, blocks)
	for _, i := range slices.Concat(full, delta) {
		if i < 1 || i > blocks {
			return fmt.Errorf("%s names block %d: must be from 1 to num_hidden_layers = %d", section, i, blocks)
		}
		times[i-1]++
	}
	for i, n := range times {
		switch {
		case n == 0:
			return fmt.Errorf("%s: block %d is in neither full_attn_layers nor kda_layers; must be in one",
				section, i+1)
		case n > 1:
			return fmt.Errorf("%s: full_attn_layers and kda_layers have block %d %d times; must be once",
				section, i+1, n)
		}
	}
	return nil
}

// bamba reads blocks with attention or a mixer, and an MLP.
func bamba(m *models.Model, _ llamaConfig, b blockConfig) error {
	for i, at := range b.AttentionAt {
		if at < 0 || at >= m.Layers || slices.Contains(b.AttentionAt[:i], at) {
			return fmt.Errorf("attn_layer_indices has %d: must list blocks of 0 to %d, each once", at, m.Layers-1)
		}
	}
	var words []string
	for i := range m.Layers {
		word := "M-"
		if slices.Contains(b.AttentionAt, i) {
			word = "*-"
		}
		words = append(words, word)
	}
	m.Pattern = strings.Join(words, " ")
	return readMixers(m, b)
}

// falconH1 reads blocks with attention and a mixer side by side, and an MLP.
func falconH1(m *models.Model, _ llamaConfig, b blockConfig) error {
	m.Pattern, m.MambaNorm = strings.TrimSpace(strings.Repeat("H- ", m.Layers)), b.MixerNorm
	if b.MambaHeadDim == 0 && b.MambaHeads > 0 {
		b.MambaHeadDim = b.Inner / b.MambaHeads
	}
	if inner := b.MambaHeads * b.MambaHeadDim; inner != b.Inner {
		return fmt.Errorf("mamba_d_ssm = %d: must be mamba_n_heads × mamba_d_head = %d", b.Inner, inner)
	}
	return cmp.Or(readMixers(m, b), absent("projectors_bias", b.OutBias))
}

// graniteHybrid reads blocks with attention or a mixer, and experts with a shared one, or an MLP as wide as that.
func graniteHybrid(m *models.Model, c llamaConfig, b blockConfig) error {
	if err := readPattern(m, b); err != nil {
		return err
	}
	second := "-"
	if m.Experts > 0 {
		second, m.ExpertHidden = "E", c.Inner
		if err := sharedWidth(m, "shared_intermediate_size", b.MLPWidth, c.Inner); err != nil {
			return err
		}
	} else {
		m.FFNHidden = b.MLPWidth
	}
	if b.Normalization != nil && *b.Normalization != "rmsnorm" {
		return fmt.Errorf(`normalization_function = %.40q is not supported; must be "rmsnorm"`, *b.Normalization)
	}
	if c.Layers != m.Layers {
		return fmt.Errorf("num_hidden_layers = %d: layer_types has %d", c.Layers, m.Layers)
	}
	m.Pattern = strings.TrimSpace(strings.NewReplacer("M", "M"+second+" ", "*", "*"+second+" ").Replace(m.Pattern))
	if b.PositionType == nil || *b.PositionType != "rope" {
		m.PositionEmbedding = models.PositionsNone
	}
	return cmp.Or(readMixers(m, b), positive("shared_intermediate_size", &b.MLPWidth))
}
