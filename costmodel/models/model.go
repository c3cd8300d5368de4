// Package models makes networks: from the numbers of a family (gpt, llama, mixtral, mlp),
// from presets with the sizes of published models, and from a Hugging Face config.json.
package models

import (
	"fmt"
	"strings"

	"psim/costmodel/group"
	"psim/costmodel/lengths"
	"psim/costmodel/network"
	"psim/costmodel/plain"
	"psim/internal/setting"
)

// Model is the [model] section. Exactly one of Preset, File and Family is given. A zero or absent
// number stands for the default.
type Model struct {
	Preset string `toml:"preset"` // a name of Presets; other keys replace those of the preset
	File   string `toml:"file"`   // path of a Hugging Face config.json, which the caller reads for ParseConfig
	Family string `toml:"family"`

	Layers          int     `toml:"layers"` // blocks; linear layers of the mlp
	Hidden          int     `toml:"hidden"`
	Heads           int     `toml:"heads"`
	KVHeads         int     `toml:"kv_heads"`
	HeadDim         int     `toml:"head_dim"`
	FFNHidden       int     `toml:"ffn_hidden"` // of an expert, if there are several
	Vocab           int     `toml:"vocab"`
	SequenceLength  int     `toml:"sequence_length"` // a preset has its training length
	Positions       int     `toml:"positions"`
	Experts         int     `toml:"experts"`
	ExpertsPerToken int     `toml:"experts_per_token"`
	ExpertGroups    int     `toml:"expert_groups"`
	GroupsPerToken  int     `toml:"groups_per_token"`
	Imbalance       float64 `toml:"imbalance"`
	Capacity        float64 `toml:"capacity"`
	Tied            *bool   `toml:"tied"`
	QKVBias         bool    `toml:"qkv_bias"` // as in Qwen 2
	Dropout         float64 `toml:"dropout"`
	// The form of a block (see form.go).
	Norm              string `toml:"norm"`
	Activation        string `toml:"activation"`
	Gated             *bool  `toml:"gated"`
	PositionEmbedding string `toml:"position_embedding"`
	LinearBias        *bool  `toml:"linear_bias"`
	HeadBias          bool   `toml:"head_bias"`
	EmbeddingNorm     bool   `toml:"embedding_norm"`
	// Optional parts of the blocks of llama and mixtral, and how the blocks differ (see block.go).
	ExpertHidden  int  `toml:"expert_hidden"`
	SharedExperts int  `toml:"shared_experts"` // of ExpertHidden each
	DenseLayers   int  `toml:"dense_layers"`   // first blocks without experts
	MoEEvery      int  `toml:"moe_every"`      // distance of blocks with experts; 0 means 1
	RouterBias    bool `toml:"router_bias"`    // of every expert; it is not trained by gradients
	// Latent attention, unless KVLoraRank is 0. HeadDim is then QKNopeHeadDim + QKRopeHeadDim.
	KVLoraRank    int `toml:"kv_lora_rank"`
	QLoraRank     int `toml:"q_lora_rank"`
	QKNopeHeadDim int `toml:"qk_nope_head_dim"`
	QKRopeHeadDim int `toml:"qk_rope_head_dim"`
	VHeadDim      int `toml:"v_head_dim"`
	// Sparse attention, unless IndexTopK is 0 (see sparse.go).
	IndexTopK    int `toml:"index_topk"`
	IndexHeads   int `toml:"index_heads"`
	IndexHeadDim int `toml:"index_head_dim"`
	IndexEvery   int `toml:"index_every"`
	IndexFirst   int `toml:"index_first"`
	// Gated delta nets, unless DeltaValueHeads is 0 (see delta.go).
	DeltaKeyHeads    int  `toml:"delta_key_heads"`
	DeltaValueHeads  int  `toml:"delta_value_heads"`
	DeltaKeyDim      int  `toml:"delta_key_dim"`
	DeltaValueDim    int  `toml:"delta_value_dim"`
	DeltaConvolution int  `toml:"delta_convolution"`
	DeltaChannels    bool `toml:"delta_channels"` // Kimi delta attention (below them)
	// Blocks of one part each, unless Pattern is "" (see pattern.go), and Mamba-2 mixers (see mamba.go).
	Pattern          string `toml:"pattern"`
	MambaHeads       int    `toml:"mamba_heads"`
	MambaHeadDim     int    `toml:"mamba_head_dim"`
	MambaStates      int    `toml:"mamba_states"`
	MambaGroups      int    `toml:"mamba_groups"`
	MambaConvolution int    `toml:"mamba_convolution"`
	MambaChunk       int    `toml:"mamba_chunk"`
	MambaNorm        *bool  `toml:"mamba_norm"`
	ExpertLatent     int    `toml:"expert_latent"` // features of experts, if not Hidden
	AttentionGate    bool   `toml:"attention_gate"`
	SharedExpertGate bool   `toml:"shared_expert_gate"`
	// Window is the number of tokens that attention sees, including the token itself; 0 means all.
	Window int `toml:"window"`
	// Blocks with a window whose heads differ (see windows.go).
	Windows            string `toml:"windows"`
	WindowHeads        int    `toml:"window_heads"`
	WindowKVHeads      int    `toml:"window_kv_heads"`
	WindowHeadDim      int    `toml:"window_head_dim"`
	WindowSinks        bool   `toml:"window_sinks"`
	KeysAsValues       bool   `toml:"keys_as_values"`
	ValueNorm          bool   `toml:"value_norm"`
	Bidirectional      bool   `toml:"bidirectional"` // see encoder.go
	TokenTypes         int    `toml:"token_types"`
	HeadTransform      bool   `toml:"head_transform"`
	BlockSizes         string `toml:"block_sizes"`          // see unequal.go
	DenseBeside        bool   `toml:"dense_beside_experts"` // see mixtral.go
	HeadGate           bool   `toml:"head_gate"`
	Chunked            bool   `toml:"chunked"`              // the window is the token's chunk of the sequence
	FullAttentionEvery int    `toml:"full_attention_every"` // distance of blocks without a Window; 0: all have it
	QKNorm             bool   `toml:"qk_norm"`
	PlainQKNorm        bool   `toml:"plain_qk_norm"` // the norms have no gains
	WholeQKNorm        bool   `toml:"whole_qk_norm"` // one norm over all heads, each feature with a gain
	PostNorms          bool   `toml:"post_norms"`
	AttentionBias      bool   `toml:"attention_bias"` // QKVBias, and a bias of the output
	MLPBias            bool   `toml:"mlp_bias"`
	Sinks              bool   `toml:"sinks"`
	ParallelBlock      bool   `toml:"parallel_block"`
	ParallelNorms      bool   `toml:"parallel_norms"` // a norm for each half of a parallel block
	MTPLayers          int    `toml:"mtp_layers"`
	MTPShared          bool   `toml:"mtp_shared"`

	Attention  string `toml:"attention"`   // AttentionUnfused (also for "") or AttentionFlash
	Loss       string `toml:"loss"`        // LossFull (also for ""), or another way to keep logits
	FP32Logits bool   `toml:"fp32_logits"` // a copy of the logits in fp32, and its gradient
	Kernels    string `toml:"kernels"`     // KernelsFused, the default, or another of KernelSets
	Eager      string `toml:"eager"`       // what differs in the network's own code, with such kernels (between.go)
	Code       string `toml:"code"`        // a program of the catalog whose code launches kernels; "" is plain

	only  byte        // the part of a block, as in Pattern; 0: all parts
	parts group.Group // the group that cuts sequences; SequenceLength is the length of a part
	// batches are made of samples of different lengths; SequenceLength is that of a sample that is computed.
	// nil: a sample is a sequence.
	batches *lengths.Batches
}

// The values of Model.Family that a config.json may turn out to be.
const (
	FamilyGPT     = "gpt"
	FamilyLlama   = "llama"
	FamilyMixtral = "mixtral"
)

const (
	familyMLP = "mlp"
	familyVGG = "vgg" // of presets only: no key sets it
)

// Limits that keep a mistyped number from filling the memory, and counts within 63 bits.
const (
	MaxLayers  = 10_000 // blocks of a network
	maxExperts = 1_000
	maxSize    = 1 << 30
	maxCount   = 1 << 60
)

func (m Model) transformer() bool {
	return m.Family == FamilyGPT || m.Family == FamilyLlama || m.Family == FamilyMixtral
}

// Validate reports the first key that is missing, out of range or without meaning for this model. It
// does not read File.
func (m Model) Validate() error {
	_, err := m.resolve()
	return err
}

// Network builds the layers. A Model with File must be replaced by the result of ParseConfig first.
func (m Model) Network() (network.Network, error) {
	r, err := m.resolve()
	if err != nil {
		return network.Network{}, err
	}
	if r.Family == familyVGG {
		n := plain.VGG(m.Preset)
		n.Name = m.name()
		return n, nil
	}
	n, err := r.network()
	n.Name = m.name()
	return n, err
}

// network builds the layers of a resolved model that is described by its keys alone.
func (m Model) network() (network.Network, error) {
	switch m.Family {
	case FamilyGPT:
		return m.withKept(gpt(m)), nil
	case FamilyLlama, FamilyMixtral:
		return m.withKept(llama(m)), nil
	case familyMLP:
		return plain.Linear(m.Layers, m.Hidden), nil
	}
	return network.Network{}, fmt.Errorf("file = %q: has not been read; pass its contents to ParseConfig", m.File)
}

// resolve applies the keys to the preset, sets defaults and checks every key.
func (m Model) resolve() (Model, error) {
	if err := m.checkSource(); err != nil {
		return Model{}, err
	}
	if m.File != "" {
		return m, m.checkKeys("file")
	}
	r := m
	if m.Preset != "" {
		batches := m.batches
		m.batches = nil // an overlay is of keys
		base, err := findPreset(m.Preset)
		if err != nil {
			return Model{}, err
		}
		r = setting.Overlay(base.Model, m)
		r.Preset, r.batches = "", batches
	}
	if err := m.checkKeys(r.Family); err != nil {
		return Model{}, err
	}
	if err := r.checkLatent(); err != nil {
		return Model{}, err
	}
	r = r.defaults()
	if m.Positions > 0 && !r.learned() {
		return Model{}, fmt.Errorf("positions = %d: has no meaning with position_embedding = %q, which has no table",
			m.Positions, r.PositionEmbedding)
	}
	return r, r.checkNumbers()
}

// checkSource requires exactly one of preset, file and family, and a known family.
func (m Model) checkSource() error {
	given := 0
	for _, source := range []string{m.Preset, m.File, m.Family} {
		if source != "" {
			given++
		}
	}
	if given != 1 {
		return fmt.Errorf("preset = %q, file = %q, family = %q: exactly one of them must be given",
			m.Preset, m.File, m.Family)
	}
	if m.Family != "" {
		return setting.Validate(Model{Family: m.Family})
	}
	return nil
}

func (m Model) source() string {
	switch {
	case m.Preset != "":
		return fmt.Sprintf("preset %q", m.Preset)
	case m.File != "":
		return "file"
	}
	return fmt.Sprintf("family %q", m.Family)
}

// checkKeys refuses keys without meaning for a family of networks, or for "file".
func (m Model) checkKeys(family string) error {
	for s, value := range setting.Given(m) {
		if s.Meaningless(family) {
			return fmt.Errorf("%s = %s: has no meaning with %s", s.Key, setting.Quote(value), m.source())
		}
	}
	return nil
}

// name returns the preset's name with the keys that change it, or family-layersxhidden.
func (m Model) name() string {
	if m.Preset == "" {
		return fmt.Sprintf("%s-%dx%d", m.Family, m.Layers, m.Hidden)
	}
	var changed []string
	for s, value := range setting.Given(m) {
		switch s.Key {
		case "preset", "sequence_length", "attention", "kernels", "eager", "loss", "fp32_logits",
			"imbalance", "capacity", "expert_groups", "groups_per_token":
		case "qkv_bias":
			changed = append(changed, s.Key)
		default:
			changed = append(changed, fmt.Sprintf("%s %v", s.Key, value))
		}
	}
	if changed == nil {
		return m.Preset
	}
	return m.Preset + " (" + strings.Join(changed, ", ") + ")"
}

// ConfigTypes lists the values of model_type that ParseConfig knows.
func ConfigTypes() []string {
	return strings.Fields(`gpt2 llama mistral mixtral qwen2 gemma gemma2 gemma3 gemma3_text qwen3 qwen3_moe deepseek_v2
		deepseek_v3 kimi_k2 gpt_oss llama4 llama4_text phi3 glm glm4 glm4_moe cohere cohere2 olmo2 olmo3 olmoe granite
		granitemoe smollm3 seed_oss exaone4 ernie4_5 minimax_m2 deepseek_v32 glm_moe_dsa
		qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text nemotron_h
		mamba2 bamba falcon_h1 granitemoehybrid kimi_linear starcoder2 nemotron stablelm arcee helium
		hunyuan_v1_dense hunyuan_v1_moe ernie4_5_moe dots1 glm4_moe_lite
		gpt_neox phi opt bloom qwen2_moe
		qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe mistral3 llava
		kimi_k25 mimo_v2_flash step3p5 step3p7
		gemma4 gemma4_text nemotron-nas bert roberta xlm-roberta distilbert`)
}

// Resolved returns the model with the keys of its preset, and with what keys that are not given stand for.
func (m Model) Resolved() (Model, error) { return m.resolve() }
