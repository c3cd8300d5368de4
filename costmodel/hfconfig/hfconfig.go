// Package hfconfig reads a config.json of Hugging Face.
package hfconfig

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"psim/costmodel/models"
)

// ParseConfig turns the contents of a Hugging Face config.json into a Model of
// a family, and says which of its keys change nothing here, by name. model_type must be one of
// ConfigTypes. A key that is missing or null
// has the default of that type's configuration class in transformers; only
// num_key_value_heads is the number of heads where it is null, and newer types must name
// their sizes. Keys have the names
// and the case that transformers reads; a second name of its attribute_map serves as
// the first. Of a model of text and images the text's is read. Experts of a type that has
// none and quantization are refused, but newer types are published quantized.
// sequence is the number of tokens per sample; 0 means the longest that the
// file declares.
func Parse(data []byte, sequence int) (models.Model, []string, error) {
	if sequence < 0 {
		return models.Model{}, nil, fmt.Errorf("sequence_length = %d: must be at least 1", sequence)
	}
	m, unread, err := parseConfig(data, sequence)
	if err != nil {
		return m, nil, fmt.Errorf("config.json: %w", err)
	}
	return m, unread, nil
}

func parseConfig(data []byte, sequence int) (models.Model, []string, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(bytes.TrimSpace(data)) == 0 {
		return models.Model{}, nil, errors.New("is empty")
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return models.Model{}, nil, errors.New("is a binary file, not JSON")
	}
	keys, err := readKeys(data)
	if err != nil {
		return models.Model{}, nil, err
	}
	modelType, err := keys.modelType(data)
	if err != nil {
		return models.Model{}, nil, err
	}
	if slices.Contains(withImages(), modelType) {
		return parseText(data, keys, sequence, modelType)
	}
	m, err := parseType(data, keys, sequence, modelType)
	return m, keys.unread(modelType), err
}

// withImages lists the values of model_type whose network for text is described by itself.
func withImages() []string { return []string{"gemma3", "llama4"} }

// parseText reads the part of a file that describes the network for text.
func parseText(data []byte, keys configKeys, sequence int, modelType string) (models.Model, []string, error) {
	var whole struct {
		Text json.RawMessage `json:"text_config"`
	}
	if err := keys.fill(data, &whole); err != nil {
		return models.Model{}, nil, err
	}
	if !keys.given("text_config") {
		return models.Model{}, nil, fmt.Errorf("has no text_config, which model_type %q needs", modelType)
	}
	text, err := readKeys(whole.Text)
	if err != nil {
		return models.Model{}, nil, fmt.Errorf("text_config: %w", err)
	}
	m, err := parseType(whole.Text, text, sequence, modelType+"_text")
	if err != nil {
		return models.Model{}, nil, fmt.Errorf("text_config: %w", err)
	}
	return m, append(keys.unread(modelType), text.unread(modelType+"_text")...), nil
}

// modelType returns what a file says it is.
func (k configKeys) modelType(data []byte) (string, error) {
	var head struct {
		ModelType *string `json:"model_type"`
	}
	if err := k.fill(data, &head); err != nil {
		return "", err
	}
	if head.ModelType == nil {
		return "", fmt.Errorf("has no model_type; must be one of %s", strings.Join(models.ConfigTypes(), ", "))
	}
	return *head.ModelType, nil
}

// parseType reads what is of one type.
func parseType(data []byte, keys configKeys, sequence int, modelType string) (models.Model, error) {
	t, known := llamaTypes()[modelType]
	if t.needs == nil {
		if err := keys.plain(); err != nil {
			return models.Model{}, err
		}
	}
	switch mixed := hybrid(modelType); {
	case modelType == "gpt2":
		return parseGPT2(data, keys, sequence)
	case known:
		return parseLlama(data, keys, sequence, modelType, t)
	case mixed != "":
		return models.Model{}, fmt.Errorf("model_type %q is not supported: it has %s layers, which psim does not model", modelType, mixed)
	}
	return models.Model{}, fmt.Errorf("model_type %q is not supported; must be one of %s", modelType, strings.Join(models.ConfigTypes(), ", "))
}

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

func parseGPT2(data []byte, keys configKeys, sequence int) (models.Model, error) {
	c := gpt2Config{Vocab: 50257, Positions: 1024, Hidden: 768, Layers: 12, Heads: 12, Tied: true}
	if err := cmp.Or(keys.dense("gpt2"), keys.fill(data, &c)); err != nil {
		return models.Model{}, err
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
		return models.Model{}, err
	}
	m := models.Model{
		Family: models.FamilyGPT, Layers: c.Layers, Hidden: c.Hidden, Heads: c.Heads, FFNHidden: value(c.Inner),
		Vocab: c.Vocab, Positions: c.Positions, SequenceLength: cmp.Or(sequence, c.Positions), Tied: &c.Tied,
	}
	return m, m.Validate()
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
