package hfconfig

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"psim/costmodel/models"
)

// A windowConfig holds the keys of types in which blocks with a window have other heads.
type windowConfig struct {
	HybridPattern []int    `json:"hybrid_layer_pattern"`
	WindowHeads   *int     `json:"swa_num_attention_heads"`
	WindowKVHeads *int     `json:"swa_num_key_value_heads"`
	WindowHeadDim *int     `json:"swa_head_dim"`
	WindowValues  *int     `json:"swa_v_head_dim"`
	WindowSinks   *bool    `json:"add_swa_attention_sink_bias"`
	FullSinks     bool     `json:"add_full_attention_sink_bias"`
	SlidingHeads  *int     `json:"num_sliding_attention_heads"`
	HeadGate      *bool    `json:"use_head_wise_attn_gate"`
	ShareWidth    int      `json:"share_expert_dim"`
	MoEEnum       *numbers `json:"moe_layers_enum"`
	Predictors    int      `json:"num_nextn_predict_layers"`
	GlobalHeadDim *int     `json:"global_head_dim"`
	GlobalKVHeads *int     `json:"num_global_key_value_heads"`
	KeysAsValues  bool     `json:"attention_k_eq_v"`
	SharedBlocks  int      `json:"num_kv_shared_layers"`
	PerLayer      *int     `json:"hidden_size_per_layer_input"`
	MixtureBlocks bool     `json:"enable_moe_block"`
	DoubleWide    bool     `json:"use_double_wide_mlp"`
	OtherHeads    *heads   `json:"attention_other_setting"`
}

// heads are those of blocks with a window in Step 3.5.
type heads struct {
	Heads   *int `json:"num_attention_heads"`
	KVHeads *int `json:"num_attention_groups"`
	HeadDim *int `json:"head_dim"`
}

// check refuses heads that no block can have.
func (h heads) check(m *models.Model) error {
	if err := cmp.Or(positive("num_attention_heads", h.Heads), positive("num_attention_groups", h.KVHeads),
		positive("head_dim", h.HeadDim)); err != nil {
		return err
	}
	queries, keys := cmp.Or(value(h.Heads), m.Heads), cmp.Or(value(h.KVHeads), m.KVHeads)
	if queries%keys != 0 {
		return fmt.Errorf("num_attention_groups = %d must divide num_attention_heads = %d", keys, queries)
	}
	return nil
}

// A frequency says which blocks have experts: every n-th, or those with a 1 in a list.
type frequency struct {
	every  int
	blocks []int
}

// UnmarshalJSON reads a number or a list of them.
func (f *frequency) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &f.blocks) == nil {
		return nil
	}
	f.blocks = nil
	return json.Unmarshal(data, &f.every)
}

// onOrOff refuses lists with other numbers than 0 and 1.
func onOrOff(key string, list []int) error {
	for i, n := range list {
		if n != 0 && n != 1 {
			return fmt.Errorf("%s[%d] = %d: must be 0 or 1", key, i, n)
		}
	}
	return nil
}

// numbers is a list of whole numbers, or a text of them with commas between.
type numbers []int

// UnmarshalJSON reads either.
func (n *numbers) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		return json.Unmarshal(data, (*[]int)(n))
	}
	for word := range strings.SplitSeq(text, ",") {
		i, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			return err
		}
		*n = append(*n, i)
	}
	return nil
}

// unequalTypes lists types in which blocks with a window have other heads than blocks without one.
func unequalTypes() map[string]llamaType {
	return map[string]llamaType{
		"mimo_v2_flash": {
			llamaConfig: llamaConfig{
				Vocab: 152576, Positions: 262144, Hidden: 4096, Inner: 16384, Layers: 48, Heads: 64, KVHeads: new(4),
				HeadDim: new(192), Experts: new(256), PerToken: new(8), Window: new(128),
			},
			attentionBias: true, windowed: true,
			needs: sizes("n_routed_experts|num_local_experts|num_experts", "num_experts_per_tok",
				"moe_intermediate_size"),
			more: blockConfig{ValueDim: 128, Dense: 1, Groups: new(1), TopGroups: new(1)}, block: mimo,
		},
		"gemma4_text": {
			llamaConfig: llamaConfig{
				Vocab: 262144, Positions: 131072, Hidden: 2304, Inner: 9216, Layers: 30, Heads: 8, KVHeads: new(4),
				HeadDim: new(256), Experts: new(0), Window: new(512), Tied: true, Act: new("gelu_pytorch_tanh"),
			},
			attentionBias: true, windowed: true, maybeDense: true,
			aliases: map[string]string{"top_k_experts": "num_experts_per_tok"},
			needs:   []string{"hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads"},
			block:   gemma4,
		},
		"step3p5": {
			llamaConfig: llamaConfig{
				Vocab: 128815, Positions: 128000, Hidden: 4096, Inner: 11264, Layers: 45, Heads: 64, KVHeads: new(8),
				HeadDim: new(128), Experts: new(288), PerToken: new(8), Window: new(512),
			},
			attentionBias: true, windowed: true,
			aliases: map[string]string{
				"num_attention_groups": "num_key_value_heads", "moe_num_experts": "num_experts",
				"moe_top_k": "num_experts_per_tok", "share_expert_dims": "share_expert_dim",
			},
			needs: sizes("moe_num_experts|n_routed_experts|num_local_experts|num_experts", "moe_intermediate_size"),
			more:  blockConfig{Dense: 3, windowConfig: windowConfig{ShareWidth: 1280}}, block: step,
		},
	}
}

// mimo reads MiMo-V2-Flash's blocks: those with a window have sinks, and twice the heads of keys and values unless
// the file says otherwise. Values have fewer features than keys.
func mimo(m *models.Model, c llamaConfig, b blockConfig) error {
	m.RouterBias, m.VHeadDim = true, b.ValueDim
	m.Sinks = b.WindowSinks == nil || *b.WindowSinks
	m.WindowSinks = m.Sinks && !b.FullSinks
	ofQueries(m)
	switch {
	case b.WindowValues != nil && *b.WindowValues != b.ValueDim:
		return fmt.Errorf("swa_v_head_dim = %d: psim models values as wide in blocks with a window as in others "+
			"(v_head_dim = %d)", *b.WindowValues, b.ValueDim)
	case b.FullSinks && !m.Sinks:
		return errors.New("add_full_attention_sink_bias = true: psim models sinks in all blocks or in those with a " +
			"window; set add_swa_attention_sink_bias = true")
	}
	m.WindowHeads, m.WindowKVHeads, m.WindowHeadDim = value(b.WindowHeads), 2*m.KVHeads, value(b.WindowHeadDim)
	if b.WindowKVHeads != nil {
		m.WindowKVHeads = *b.WindowKVHeads
	}
	full := func(i int) bool { return i == 0 || (i+1)%6 == 0 }
	if p := b.HybridPattern; p != nil {
		if len(p) != m.Layers {
			return fmt.Errorf("hybrid_layer_pattern has %d entries: must have num_hidden_layers = %d", len(p), m.Layers)
		}
		full = func(i int) bool { return p[i] == 0 }
	}
	err := cmp.Or(onOrOff("hybrid_layer_pattern", b.HybridPattern), positive("v_head_dim", &b.ValueDim),
		positive("swa_num_attention_heads", b.WindowHeads),
		positive("swa_num_key_value_heads", b.WindowKVHeads), positive("swa_head_dim", b.WindowHeadDim),
		readMLPTypes(c, &b), readMixture(m, b))
	return cmp.Or(err, windows(m, b, full))
}

// step reads the blocks of Step 3.5 and 3.7: a gate of every head of attention, and a shared expert.
func step(m *models.Model, c llamaConfig, b blockConfig) error {
	m.RouterBias, m.QKNorm = true, true
	m.HeadGate = b.HeadGate == nil || *b.HeadGate
	m.WindowHeads = value(b.SlidingHeads)
	if o := b.OtherHeads; o != nil && b.SlidingHeads == nil {
		if err := o.check(m); err != nil {
			return fmt.Errorf("attention_other_setting: %w", err)
		}
		m.WindowHeads, m.WindowKVHeads, m.WindowHeadDim = value(o.Heads), value(o.KVHeads), value(o.HeadDim)
	}
	for _, types := range []*[]string{&b.LayerTypes, &b.MLPTypes} { // they may name modules that predict, too
		if n := len(*types); b.Predictors > 0 && n == c.Layers+b.Predictors {
			*types = (*types)[:c.Layers]
		}
	}
	if b.MoEEnum != nil {
		b.MLPTypes = make([]string, c.Layers)
		for i := range b.MLPTypes {
			b.MLPTypes[i] = "dense"
		}
		for _, i := range *b.MoEEnum {
			if i < 0 || i >= c.Layers {
				return fmt.Errorf("moe_layers_enum names block %d: must be from 0 to %d", i, c.Layers-1)
			}
			b.MLPTypes[i] = "sparse"
		}
	}
	b.Shared = nil
	err := cmp.Or(readMLPTypes(c, &b), readMixture(m, b),
		sharedWidth(m, "share_expert_dim", b.ShareWidth, b.ExpertInner),
		positive("num_sliding_attention_heads", b.SlidingHeads))
	return cmp.Or(err, windows(m, b, func(int) bool { return true }))
}

// gemma4 reads Gemma 4's blocks: those without a window have heads of another width, and may take keys as values.
func gemma4(m *models.Model, c llamaConfig, b blockConfig) error {
	switch {
	case b.PerLayer == nil:
		return errors.New("hidden_size_per_layer_input is not given, and stands for 256: psim does not model " +
			"embeddings of every block; it reads files with hidden_size_per_layer_input = 0")
	case *b.PerLayer != 0:
		return fmt.Errorf("hidden_size_per_layer_input = %d: psim does not model embeddings of every block, which a "+
			"pipeline passes on; must be 0", *b.PerLayer)
	case b.SharedBlocks != 0:
		return fmt.Errorf("num_kv_shared_layers = %d: psim does not model keys and values of earlier blocks, which a "+
			"pipeline passes on; must be 0", b.SharedBlocks)
	case b.MixtureBlocks != (m.Experts > 0):
		return fmt.Errorf("enable_moe_block = %v: num_experts must be %s", b.MixtureBlocks,
			map[bool]string{true: "above 0", false: "0"}[b.MixtureBlocks])
	}
	m.QKNorm, m.ValueNorm, m.PostNorms, m.KeysAsValues = true, true, true, b.KeysAsValues
	m.WindowHeadDim, m.WindowKVHeads, m.HeadDim = value(c.HeadDim), value(c.KVHeads), 512
	if b.GlobalHeadDim != nil {
		m.HeadDim = *b.GlobalHeadDim
	}
	if n := b.GlobalKVHeads; n != nil && b.KeysAsValues {
		if m.KVHeads = *n; *n > 0 && m.Heads%*n != 0 {
			return fmt.Errorf("num_global_key_value_heads: %d must divide num_attention_heads = %d", *n, m.Heads)
		}
	}
	if m.Experts > 0 {
		m.DenseBeside, m.ExpertHidden = true, b.ExpertInner
		if err := positive("moe_intermediate_size", &b.ExpertInner); err != nil {
			return err
		}
	}
	last := func(i int) bool { return (i+1)%6 == 0 || i == m.Layers-1 }
	if n := len(b.LayerTypes); n == m.Layers { // the last block attends to all tokens, whatever the file says
		b.LayerTypes = append(slices.Clone(b.LayerTypes[:n-1]), "full_attention")
	}
	return cmp.Or(positive("global_head_dim", b.GlobalHeadDim),
		positive("num_global_key_value_heads", b.GlobalKVHeads), windows(m, b, last))
}

// readMLPTypes counts the first blocks without experts, where a list says which these are.
func readMLPTypes(c llamaConfig, b *blockConfig) (err error) {
	switch f := b.MoEFrequency; {
	case b.MLPTypes != nil:
		b.Dense, err = leading(b.MLPTypes, "dense", c.Layers)
	case f != nil && f.blocks != nil:
		if err := onOrOff("moe_layer_freq", f.blocks); err != nil {
			return err
		}
		words := make([]string, len(f.blocks))
		for i, has := range f.blocks {
			words[i] = []string{"dense", "sparse"}[has]
		}
		b.Dense, err = leading(words, "dense", c.Layers)
		if err != nil {
			err = errors.New(strings.Replace(err.Error(), "mlp_layer_types", "moe_layer_freq", 1))
		}
	}
	b.MoEFrequency = nil
	return err
}

// windows reads which blocks have a window: those that layer_types names, or all but those that are full.
func windows(m *models.Model, b blockConfig, full func(int) bool) error {
	if b.LayerTypes != nil {
		if len(b.LayerTypes) != m.Layers {
			return fmt.Errorf("layer_types has %d entries: must have num_hidden_layers = %d", len(b.LayerTypes),
				m.Layers)
		}
		for _, kind := range b.LayerTypes {
			if kind != "full_attention" && kind != "sliding_attention" {
				return fmt.Errorf("layer_types has %.40q, which psim does not model here; it models full_attention, "+
					"sliding_attention", kind)
			}
		}
		full = func(i int) bool { return b.LayerTypes[i] == "full_attention" }
	}
	letters := make([]byte, m.Layers)
	for i := range letters {
		letters[i] = 'W'
		if full(i) {
			letters[i] = 'F'
		}
	}
	m.Windows = string(letters)
	if m.Window < 1 && strings.Contains(m.Windows, "W") {
		return fmt.Errorf("sliding_window = %d: must be at least 1, for blocks with a window", m.Window)
	}
	if !strings.Contains(m.Windows, "W") {
		m.Windows, m.Window, m.WindowHeads, m.WindowKVHeads, m.WindowHeadDim = "", 0, 0, 0, 0
		m.Sinks, m.WindowSinks, m.KeysAsValues = m.Sinks && !m.WindowSinks, false, false
	}
	return nil
}
