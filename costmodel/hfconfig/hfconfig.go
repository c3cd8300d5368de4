// Package hfconfig reads a config.json of Hugging Face.
package hfconfig

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"psim/costmodel/models"
)

// Parse turns the contents of a Hugging Face config.json into a Model of a family. It also returns
// notes on keys that have no effect here. Errors name the keys of the file. model_type must be one of
// models.ConfigTypes. sequence is the number of tokens per sample; 0 means the longest that the file
// declares.
//
// A key that is missing or null has the default of that type's configuration class in transformers,
// with two exceptions: a num_key_value_heads of null means the number of heads, and newer types must
// give their sizes. Keys have the names and the case that transformers reads; the second name in an
// attribute_map is as good as the first. Of a model for text and images only the network for text is
// read. Experts are refused for types without them. How weights are quantized is a note: training has
// weights of its own.
func Parse(data []byte, sequence int) (models.Model, []string, error) {
	if sequence < 0 {
		return models.Model{}, nil, fmt.Errorf("sequence_length = %d: must be at least 1", sequence)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(bytes.TrimSpace(data)) == 0 {
		return models.Model{}, nil, errors.New("is empty")
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return models.Model{}, nil, errors.New("is a binary file, not JSON")
	}
	data = quoteNonNumbers(data)
	keys, err := readKeys(data)
	if err != nil {
		return models.Model{}, nil, err
	}
	modelType, err := keys.modelType(data)
	if err != nil {
		return models.Model{}, nil, err
	}
	f := configFile{data, keys, modelType, sequence}
	if _, images := textTypes()[modelType]; images {
		return f.parseText()
	}
	m, err := f.parse()
	return m, keys.unread(modelType), err
}

// A configFile is a config.json or the part of it that describes the network for text.
type configFile struct {
	data      []byte
	keys      configKeys
	modelType string
	sequence  int // tokens per sample; 0 means the longest that the file declares
}

// modelType returns the type that a file declares.
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

// parse reads a file by its type.
func (f configFile) parse() (models.Model, error) {
	t, known := llamaTypes()[f.modelType]
	switch {
	case f.modelType == "gpt2":
		m, err := f.parseGPT2()
		return m, f.inFileWords(cmp.Or(err, m.Validate()))
	case known:
		m, err := f.parseLlama(t)
		return m, f.inFileWords(cmp.Or(err, m.Validate()))
	}
	return models.Model{}, f.unsupported()
}

// A gpt2Config has the keys of transformers' GPT2Config.
type gpt2Config struct {
	Vocab          int     `json:"vocab_size"`
	Positions      int     `json:"n_positions"`
	Hidden         int     `json:"n_embd"`
	Layers         int     `json:"n_layer"`
	Heads          int     `json:"n_head"`
	Inner          *int    `json:"n_inner"`
	Tied           bool    `json:"tie_word_embeddings"`
	CrossAttention bool    `json:"add_cross_attention"`
	Act            *string `json:"activation_function"`

	// The other names of four keys in GPT2Config's attribute_map.
	MaxPositions *int `json:"max_position_embeddings"`
	HiddenSize   *int `json:"hidden_size"`
	HiddenLayers *int `json:"num_hidden_layers"`
	AllHeads     *int `json:"num_attention_heads"`
}

// parseGPT2 reads a GPT-2, with the defaults of GPT2Config.
func (f configFile) parseGPT2() (models.Model, error) {
	keys, sequence := f.keys, f.sequence
	c := gpt2Config{Vocab: 50257, Positions: 1024, Hidden: 768, Layers: 12, Heads: 12, Tied: true}
	if err := cmp.Or(keys.dense("gpt2"), keys.fill(f.data, &c)); err != nil {
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
	function, eager := models.ActivationGELU, eagerFunction("gelu_new")
	if c.Act != nil {
		eager = eagerFunction(*c.Act)
		if function, err = activation("activation_function", *c.Act); err != nil {
			return models.Model{}, err
		}
	}
	m := models.Model{
		Family: models.FamilyGPT, Activation: function, Eager: eager,
		Layers: c.Layers, Hidden: c.Hidden, Heads: c.Heads, FFNHidden: value(c.Inner),
		Vocab: c.Vocab, Positions: c.Positions, SequenceLength: cmp.Or(sequence, c.Positions), Tied: &c.Tied,
	}
	return m, nil
}

// few refuses a count before patterns of that length are made.
func few(key string, n, most int) error {
	if n < 1 || n > most {
		return fmt.Errorf("%s = %d: must be 1 to %d", key, n, most)
	}
	return nil
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
