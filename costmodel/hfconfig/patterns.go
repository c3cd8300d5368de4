package hfconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/costmodel/models"
)

// A patternConfig holds the keys of types whose blocks have one part each.
type patternConfig struct {
	Letters          *string  `json:"hybrid_override_pattern"`
	BlockTypes       []string `json:"layers_block_type"`
	FurtherLetters   string   `json:"mtp_hybrid_override_pattern"`
	FurtherTypes     []string `json:"mtp_layers_block_type"`
	MambaHeads       int      `json:"mamba_num_heads"`
	MambaHeadDim     int      `json:"mamba_head_dim"`
	MambaStates      int      `json:"ssm_state_size"`
	MambaGroups      int      `json:"n_groups"`
	MambaConvolution int      `json:"conv_kernel"`
	MambaChunk       int      `json:"chunk_size"`
	ConvolutionBias  *bool    `json:"use_conv_bias"`
	MambaBias        bool     `json:"mamba_proj_bias"`
	MambaAct         *string  `json:"mamba_hidden_act"`
	MLPAct           *string  `json:"mlp_hidden_act"`
	WideShared       int      `json:"moe_shared_expert_intermediate_size"`
	Latent           int      `json:"moe_latent_size"`
	AttentionHeadDim int      `json:"attention_head_dim"` // the older name of head_dim
	Expand           int      `json:"mamba_expand"`
	AttentionAt      []int    `json:"attn_layer_indices"`
	MLPWidth         int      `json:"shared_intermediate_size"`
	PositionType     *string  `json:"position_embedding_type"`
	Inner            int      `json:"mamba_d_ssm"`
	MixerNorm        *bool    `json:"mamba_rms_norm"`
	OutBias          bool     `json:"projectors_bias"`
	Normalization    *string  `json:"normalization_function"`
	NoPositions      *bool    `json:"mla_use_nope"`
	LinearHeads      int      `json:"linear_num_heads"`
	LinearHeadDim    int      `json:"linear_head_dim"`
	LinearAttention  *struct {
		Full        []int `json:"full_attn_layers"`
		Delta       []int `json:"kda_layers"`
		Heads       int   `json:"num_heads"`
		HeadDim     int   `json:"head_dim"`
		Convolution int   `json:"short_conv_kernel_size"`
	} `json:"linear_attn_config"`
}

// patternTypes lists these types.
func patternTypes() map[string]llamaType {
	return map[string]llamaType{
		"nemotron_h": {
			llamaConfig: llamaConfig{
				Vocab: 131072, Positions: 4096, Hidden: 4096, Inner: 21504, Heads: 32, KVHeads: new(8),
				HeadDim: new(128), Experts: new(8), PerToken: new(2),
				Layers: 1, // unless given, as many as the pattern has
			},
			attentionBias: true, patterned: true,
			needs: []string{
				"vocab_size", "hidden_size", "num_attention_heads",
				"hybrid_override_pattern|layers_block_type|layer_types",
			},
			more: blockConfig{ExpertInner: 7688, patternConfig: patternConfig{
				MambaHeads: 128, MambaHeadDim: 64, MambaStates: 128, MambaGroups: 8, MambaConvolution: 4,
				MambaChunk: 128, ConvolutionBias: new(true), MambaAct: new("silu"), MLPAct: new("relu2"),
				WideShared: 7688,
			}},
			block: patternBlocks,
		},
	}
}

// patternBlocks reads Nemotron-H's blocks, which have no positions, and MLPs and experts without a gate.
func patternBlocks(m *models.Model, c llamaConfig, b blockConfig) error {
	err := cmp.Or(readPattern(m, b), furtherParts(b), readMixers(m, b), absent("use_bias", b.Bias))
	switch {
	case err != nil:
		return err
	case c.Layers != 1 && c.Layers != m.Layers:
		return fmt.Errorf("num_hidden_layers = %d: the pattern of layers has %d", c.Layers, m.Layers)
	}
	m.PositionEmbedding, m.Gated = models.PositionsNone, new(false)
	if b.MLPAct != nil {
		if m.Activation, err = activation("mlp_hidden_act", *b.MLPAct); err != nil {
			return err
		}
	}
	if b.AttentionHeadDim != 0 {
		m.HeadDim = b.AttentionHeadDim
	}
	if !strings.Contains(m.Pattern, "E") {
		m.Family, m.Experts, m.ExpertsPerToken = models.FamilyLlama, 0, 0
		return nil
	}
	b.Shared = nil
	err = cmp.Or(readMixture(m, b), sharedWidth(m, "moe_shared_expert_intermediate_size", b.WideShared, b.ExpertInner))
	m.RouterBias, m.ExpertLatent = true, b.Latent
	return err
}

// furtherParts checks the parts of modules that predict further tokens, although these are left out.
func furtherParts(b blockConfig) error {
	_, err := lettersOf("mtp_layers_block_type", b.FurtherTypes)
	return cmp.Or(err, partLetters("mtp_hybrid_override_pattern", b.FurtherLetters))
}

// readMixers reads the sizes of Mamba-2 mixers, if the pattern has some. Heads that are not given a width share what
// expand makes of the model's features.
func readMixers(m *models.Model, b blockConfig) error {
	if b.MambaHeadDim == 0 && b.MambaHeads > 0 {
		b.MambaHeadDim = b.Expand * m.Hidden / b.MambaHeads
	}
	switch {
	case b.ConvolutionBias != nil && !*b.ConvolutionBias:
		return fmt.Errorf("use_conv_bias = false is not supported; must be true")
	case b.MambaAct != nil && *b.MambaAct != "silu":
		return fmt.Errorf(`mamba_hidden_act = %.40q is not supported; must be "silu"`, *b.MambaAct)
	}
	if strings.ContainsAny(m.Pattern, "MH") {
		m.MambaHeads, m.MambaHeadDim, m.MambaStates = b.MambaHeads, b.MambaHeadDim, b.MambaStates
		m.MambaGroups, m.MambaConvolution, m.MambaChunk = b.MambaGroups, b.MambaConvolution, b.MambaChunk
	}
	return cmp.Or(positive("mamba_num_heads", &b.MambaHeads),
		positive("mamba_head_dim", &b.MambaHeadDim), positive("ssm_state_size", &b.MambaStates),
		positive("n_groups", &b.MambaGroups), positive("conv_kernel", &b.MambaConvolution),
		positive("chunk_size", &b.MambaChunk), absent("mamba_proj_bias", b.MambaBias))
}

// readPattern reads the part of every block, as letters or as words.
func readPattern(m *models.Model, b blockConfig) error {
	key, words := "layers_block_type", b.BlockTypes
	if words == nil {
		key, words = "layer_types", b.LayerTypes
	}
	if words == nil && b.Letters != nil {
		if *b.Letters == "" {
			return fmt.Errorf(`hybrid_override_pattern = "": must have a letter for every block`)
		}
		m.Pattern, m.Layers = *b.Letters, len(*b.Letters)
		return partLetters("hybrid_override_pattern", m.Pattern)
	}
	pattern, err := lettersOf(key, words)
	m.Pattern, m.Layers = pattern, len(pattern)
	if err == nil && pattern == "" {
		err = fmt.Errorf("%s = []: must have a word for every block", key)
	}
	return err
}

// lettersOf returns the letters of parts that are given as words.
func lettersOf(key string, words []string) (string, error) {
	letters := map[string]byte{
		"mamba": 'M', "linear_attention": 'M', "attention": '*', "full_attention": '*', "mlp": '-', "moe": 'E',
	}
	var pattern []byte
	for _, word := range words {
		letter, known := letters[word]
		if !known {
			return "", fmt.Errorf("%s has %.40q, which psim does not model here; it models mamba, attention, mlp, moe",
				key, word)
		}
		pattern = append(pattern, letter)
	}
	return string(pattern), nil
}

// partLetters refuses letters that are not of a part that Nemotron-H has.
func partLetters(key, pattern string) error {
	for i, letter := range pattern {
		if !strings.ContainsRune("M*-E", letter) {
			return fmt.Errorf("%s has %q at block %d: must be M (Mamba-2), * (attention), - (MLP) or E (experts)", key,
				letter, i)
		}
	}
	return nil
}

// expertKeys requires the sizes of experts of a file whose pattern has some: the defaults are of no published network.
func (k configKeys) expertKeys(pattern string) error {
	if !strings.Contains(pattern, "E") {
		return nil
	}
	for _, names := range []string{
		"n_routed_experts num_local_experts num_experts", "num_experts_per_tok", "moe_intermediate_size",
	} {
		if list := strings.Fields(names); !slices.ContainsFunc(list, k.given) {
			return fmt.Errorf("has no %s, which the experts among its blocks need", list[0])
		}
	}
	return nil
}

// activation returns the function that a name of transformers stands for.
func activation(key, name string) (string, error) {
	functions := map[string]string{
		"silu": models.ActivationSiLU, "swish": models.ActivationSiLU, "relu": models.ActivationReLU,
		"relu2": models.ActivationSquaredReLU, "gelu": models.ActivationGELU, "gelu_new": models.ActivationGELU,
		"gelu_fast": models.ActivationGELU, "gelu_pytorch_tanh": models.ActivationGELU,
		"gelu_python": models.ActivationGELU, "gelu_accurate": models.ActivationGELU,
	}
	if function, known := functions[name]; known {
		return function, nil
	}
	return "", fmt.Errorf("%s = %.40q is not supported; must be silu, gelu, gelu_new, gelu_pytorch_tanh, relu or relu2",
		key, name)
}
