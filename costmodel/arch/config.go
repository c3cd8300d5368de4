package arch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ParseConfig turns the contents of a Hugging Face config.json into a Model of
// a family. model_type must be one of configTypes. A key that is missing or null
// has the default of that type's configuration class in transformers; only
// num_key_value_heads is the number of heads where it is null. Keys have the names
// and the case that transformers reads; a second name of its attribute_map serves as
// the first. Experts of a type that has none and quantization are refused.
// sequence is the number of tokens per sample; 0 means the longest that the
// file declares. A sliding window is read and not modelled; dropout and the auxiliary losses of routers are
// ignored.
func ParseConfig(data []byte, sequence int) (Model, error) {
	if sequence < 0 {
		return Model{}, fmt.Errorf("sequence_length = %d: must be at least 1", sequence)
	}
	m, err := parseConfig(data, sequence)
	if err != nil {
		return m, fmt.Errorf("config.json: %w", err)
	}
	return m, nil
}

func parseConfig(data []byte, sequence int) (Model, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(bytes.TrimSpace(data)) == 0 {
		return Model{}, errors.New("is empty")
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return Model{}, errors.New("is a binary file, not JSON")
	}
	var head struct {
		ModelType *string `json:"model_type"`
	}
	keys, err := readKeys(data)
	if err == nil {
		err = keys.fill(data, &head)
	}
	if err != nil {
		return Model{}, err
	}
	if head.ModelType == nil {
		return Model{}, fmt.Errorf("has no model_type; must be one of %s", strings.Join(configTypes, ", "))
	}
	c, known := llamaTypes()[*head.ModelType]
	switch {
	case *head.ModelType == "gpt2":
		return parseGPT2(data, keys, sequence)
	case known:
		return parseLlama(data, keys, sequence, *head.ModelType, c)
	}
	return Model{}, fmt.Errorf("model_type %q is not supported; must be one of %s", *head.ModelType, strings.Join(configTypes, ", "))
}

// configTypes lists the values of model_type that ParseConfig knows.
var configTypes = []string{"gpt2", "llama", "mistral", "mixtral", "qwen2", "gemma"}

// gpt2Config and its defaults are transformers' GPT2Config.
type gpt2Config struct {
	Vocab          int  `json:"vocab_size"`
	Positions      int  `json:"n_positions"`
	Hidden         int  `json:"n_embd"`
	Layers         int  `json:"n_layer"`
	Heads          int  `json:"n_head"`
	Inner          *int `json:"n_inner"`
	Tied           bool `json:"tie_word_embeddings"`
	CrossAttention bool `json:"add_cross_attention"`

	// GPT2Config's attribute_map: other names of four of these.
	MaxPositions *int `json:"max_position_embeddings"`
	HiddenSize   *int `json:"hidden_size"`
	HiddenLayers *int `json:"num_hidden_layers"`
	AllHeads     *int `json:"num_attention_heads"`
}

func parseGPT2(data []byte, keys configKeys, sequence int) (Model, error) {
	c := gpt2Config{Vocab: 50257, Positions: 1024, Hidden: 768, Layers: 12, Heads: 12, Tied: true}
	if err := cmp.Or(keys.dense("gpt2"), keys.fill(data, &c)); err != nil {
		return Model{}, err
	}
	err := cmp.Or(
		alias{"n_positions", &c.Positions, "max_position_embeddings", c.MaxPositions}.resolve(keys),
		alias{"n_embd", &c.Hidden, "hidden_size", c.HiddenSize}.resolve(keys),
		alias{"n_layer", &c.Layers, "num_hidden_layers", c.HiddenLayers}.resolve(keys),
		alias{"n_head", &c.Heads, "num_attention_heads", c.AllHeads}.resolve(keys),
		positive("vocab_size", &c.Vocab), positive("n_positions", &c.Positions), positive("n_embd", &c.Hidden),
		positive("n_layer", &c.Layers), positive("n_head", &c.Heads), positive("n_inner", c.Inner),
		absent("add_cross_attention", c.CrossAttention),
	)
	if err != nil {
		return Model{}, err
	}
	m := Model{
		Family: familyGPT, Layers: c.Layers, Hidden: c.Hidden, Heads: c.Heads, FFNHidden: value(c.Inner),
		Vocab: c.Vocab, Positions: c.Positions, SequenceLength: cmp.Or(sequence, c.Positions), Tied: &c.Tied,
	}
	return m, m.Validate()
}

// A llamaConfig is what the configuration classes of the Llama family have in
// common, and what Mixtral adds.
type llamaConfig struct {
	Vocab         int   `json:"vocab_size"`
	Positions     int   `json:"max_position_embeddings"`
	Hidden        int   `json:"hidden_size"`
	Inner         int   `json:"intermediate_size"`
	Layers        int   `json:"num_hidden_layers"`
	Heads         int   `json:"num_attention_heads"`
	KVHeads       *int  `json:"num_key_value_heads"`
	HeadDim       *int  `json:"head_dim"`
	Tied          bool  `json:"tie_word_embeddings"`
	AttentionBias bool  `json:"attention_bias"`
	MLPBias       bool  `json:"mlp_bias"`
	Experts       *int  `json:"num_local_experts"`
	ExpertsToo    *int  `json:"num_experts"` // MixtralConfig's attribute_map
	PerToken      *int  `json:"num_experts_per_tok"`
	Window        *int  `json:"sliding_window"`
	UseWindow     *bool `json:"use_sliding_window"`

	qkvBias bool
}

// llamaTypes lists the defaults of LlamaConfig, MistralConfig, MixtralConfig,
// Qwen2Config and GemmaConfig of transformers, by model_type.
func llamaTypes() map[string]llamaConfig {
	return map[string]llamaConfig{
		"llama":   {Vocab: 32000, Positions: 2048, Hidden: 4096, Inner: 11008, Layers: 32, Heads: 32},
		"mistral": {Vocab: 32000, Positions: 4096 * 32, Hidden: 4096, Inner: 14336, Layers: 32, Heads: 32, KVHeads: new(8), Window: new(4096)},
		"mixtral": {
			Vocab: 32000, Positions: 4096 * 32, Hidden: 4096, Inner: 14336, Layers: 32, Heads: 32, KVHeads: new(8),
			Experts: new(8), PerToken: new(2),
		},
		"qwen2": {Vocab: 151936, Positions: 32768, Hidden: 4096, Inner: 22016, Layers: 32, Heads: 32, KVHeads: new(32), Window: new(4096), qkvBias: true},
		"gemma": {
			Vocab: 256000, Positions: 8192, Hidden: 3072, Inner: 24576, Layers: 28, Heads: 16, KVHeads: new(16),
			HeadDim: new(256), Tied: true,
		},
	}
}

func parseLlama(data []byte, keys configKeys, sequence int, modelType string, c llamaConfig) (Model, error) {
	mixed := c.Experts != nil // by its type: other types have no such key
	if !mixed {
		if err := keys.dense(modelType); err != nil {
			return Model{}, err
		}
	}
	if err := keys.fill(data, &c); err != nil {
		return Model{}, err
	}
	switch {
	case !mixed:
		c.Experts, c.ExpertsToo = nil, nil // 0 or 1, which is none
	case c.Experts == nil && c.ExpertsToo != nil:
		c.Experts = new(int)
	}
	err := cmp.Or(
		alias{"num_local_experts", c.Experts, "num_experts", c.ExpertsToo}.resolve(keys),
		positive("vocab_size", &c.Vocab), positive("max_position_embeddings", &c.Positions),
		positive("hidden_size", &c.Hidden), positive("intermediate_size", &c.Inner),
		positive("num_hidden_layers", &c.Layers), positive("num_attention_heads", &c.Heads),
		positive("num_key_value_heads", c.KVHeads), positive("head_dim", c.HeadDim),
		positive("num_local_experts", c.Experts), positive("num_experts_per_tok", c.PerToken),
		absent("attention_bias", c.AttentionBias), absent("mlp_bias", c.MLPBias),
	)
	if err != nil {
		return Model{}, err
	}
	m := Model{
		Family: familyLlama, QKVBias: c.qkvBias, Layers: c.Layers, Hidden: c.Hidden, Heads: c.Heads, KVHeads: value(c.KVHeads),
		HeadDim: value(c.HeadDim), FFNHidden: c.Inner, Vocab: c.Vocab,
		SequenceLength: cmp.Or(sequence, c.Positions), Tied: &c.Tied, Window: c.window(modelType),
	}
	if mixed {
		m.Family, m.Experts, m.ExpertsPerToken = familyMixtral, value(c.Experts), value(c.PerToken)
	}
	return m, m.Validate()
}

// window returns the sliding window of a type that has one; qwen2 has it only where
// use_sliding_window is true.
func (c llamaConfig) window(modelType string) int {
	used := modelType == "mistral" || modelType == "mixtral" || modelType == "qwen2" && c.UseWindow != nil && *c.UseWindow
	if !used {
		return 0
	}
	return value(c.Window)
}

func unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return fmt.Errorf("%s is %s: must be %s", wrong.Field, wrong.Value, wrong.Type)
	case errors.As(err, &wrong):
		return fmt.Errorf("is %s: must be an object", wrong.Value)
	}
	return err
}

func positive(key string, v *int) error {
	if v != nil && *v < 1 {
		return fmt.Errorf("%s = %d: must be at least 1", key, *v)
	}
	return nil
}

func absent(key string, present bool) error {
	if present {
		return fmt.Errorf("%s = true is not supported; must be false", key)
	}
	return nil
}

func value(v *int) int {
	if v == nil {
		return 0
	}
	return *v
}
