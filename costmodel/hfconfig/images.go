package hfconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"psim/costmodel/models"
)

// textTypes says as which type the network for text of a model for text and images is read, if its
// text_config has no type that is read.
func textTypes() map[string]string {
	return map[string]string{
		"gemma3": "gemma3_text", "llama4": "llama4_text", "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2",
		"qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe", "mistral3": "mistral", "llava": "llama",
		"kimi_k25": "deepseek_v3",
		"step3p7":  "step3p5", "gemma4": "gemma4_text", "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text",
	}
}

// sameBlocks says which types of text_config differ from one that is read in no product and no size.
func sameBlocks() map[string]string {
	return map[string]string{
		"qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3",
		"qwen3_vl_moe_text": "qwen3_moe", "ministral3": "mistral",
	}
}

// parseText reads the part of a file that describes the network for text. Older files of some types have its keys
// among their own.
func (f configFile) parseText() (models.Model, []string, error) {
	var whole struct {
		Text json.RawMessage `json:"text_config"`
	}
	if err := f.keys.fill(f.data, &whole); err != nil {
		return models.Model{}, nil, err
	}
	if !f.keys.given("text_config") {
		if !f.keys.given("hidden_size") {
			return models.Model{}, nil, fmt.Errorf("has no text_config, which model_type %q needs", f.modelType)
		}
		flat := f
		flat.modelType = textTypes()[f.modelType]
		m, err := flat.parse()
		return m, f.keys.unread(flat.modelType), err
	}
	text, err := f.text(whole.Text)
	if err != nil {
		return models.Model{}, nil, fmt.Errorf("text_config: %w", err)
	}
	m, err := text.parse()
	if err != nil {
		return models.Model{}, nil, fmt.Errorf("text_config: %w", err)
	}
	outer, notes := f.withoutTwins(text)
	notes = append(notes, outer.unread(f.modelType)...)
	return m, append(notes, text.keys.unread(text.modelType)...), nil
}

// withoutTwins returns the keys of a file that its text_config does not have as well, and a note for each that has
// another value there: text_config decides, as in transformers.
func (f configFile) withoutTwins(text configFile) (outer configKeys, notes []string) {
	outer = maps.Clone(f.keys)
	for _, key := range slices.Sorted(maps.Keys(f.keys)) {
		if !text.keys.given(key) {
			continue
		}
		delete(outer, key)
		if own, inner := f.keys[key], text.keys[key]; !neutral(key) && f.keys.given(key) && !bytes.Equal(own, inner) {
			notes = append(notes, fmt.Sprintf("%s = %s: text_config has %s, which is read", key, shortened(own),
				shortened(inner)))
		}
	}
	return outer, notes
}

// text returns a text_config as a file of its own. Whether the head is the table of tokens is what the outer file
// says, if it does.
func (f configFile) text(data []byte) (configFile, error) {
	text := configFile{data: data, modelType: textTypes()[f.modelType], sequence: f.sequence}
	var err error
	if text.keys, err = readKeys(data); err != nil {
		return text, err
	}
	if text.keys.given("model_type") {
		given, err := text.keys.modelType(data)
		if err != nil {
			return text, err
		}
		if same, ok := sameBlocks()[given]; ok {
			given = same
		}
		text.modelType = given
	}
	const tied = "tie_word_embeddings"
	if f.keys.given(tied) {
		text.keys[tied] = f.keys[tied]
		text.data, err = json.Marshal(text.keys)
	}
	return text, err
}
