package hfconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// fileKeys lists the keys of files that hold a key of [model], in the order in which they are looked for.
// The first is that of files that give none of them.
func fileKeys() map[string][]string {
	return map[string][]string{
		"layers": {"num_hidden_layers", "n_layer"}, "hidden": {"hidden_size", "n_embd"},
		"heads": {"num_attention_heads", "n_head"}, "kv_heads": {"num_key_value_heads"},
		"ffn_hidden": {"intermediate_size", "n_inner"}, "vocab": {"vocab_size"},
		"positions": {"max_position_embeddings", "n_positions"}, "window": {"sliding_window", "attention_chunk_size"},
		"experts":           {"num_local_experts", "num_experts", "n_routed_experts"},
		"experts_per_token": {"num_experts_per_tok"}, "expert_hidden": {"moe_intermediate_size"},
		"shared_experts": {"n_shared_experts"}, "expert_groups": {"n_group"}, "groups_per_token": {"topk_group"},
		"dense_layers": {"first_k_dense_replace", "mlp_only_layers"},
		"moe_every":    {"decoder_sparse_step", "interleave_moe_layer_step", "moe_layers"},
		"index_topk":   {"index_topk"}, "index_heads": {"index_n_heads"}, "index_head_dim": {"index_head_dim"},
		"full_attention_every": {"sliding_window_pattern", "full_attention_interval", "layer_types"},
		"delta_key_heads":      {"linear_num_key_heads"}, "delta_value_heads": {"linear_num_value_heads"},
		"delta_key_dim": {"linear_key_head_dim"}, "delta_value_dim": {"linear_value_head_dim"},
		"pattern":     {"hybrid_override_pattern", "layers_block_type", "layer_types"},
		"mamba_heads": {"mamba_num_heads"}, "mamba_head_dim": {"mamba_head_dim"}, "mamba_states": {"ssm_state_size"},
		"mamba_groups": {"n_groups"}, "mamba_convolution": {"conv_kernel"}, "mamba_chunk": {"chunk_size"},
		"expert_latent":     {"moe_latent_size"},
		"delta_convolution": {"linear_conv_kernel_dim"}, "window_kv_heads": {"swa_num_key_value_heads"},
		"window_heads": {"swa_num_attention_heads"}, "window_head_dim": {"swa_head_dim"},
	}
}

// keyOfModel matches a key of [model] before its value, or one that is missing.
var keyOfModel = regexp.MustCompile(`\b[a-z_]+( = | is missing| has ')(\d*)`)

// inFileWords makes an error about a Model one about the file that it was read from.
func (f configFile) inFileWords(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(keyOfModel.ReplaceAllStringFunc(err.Error(), func(text string) string {
		key, _, _ := strings.Cut(text, " ")
		names := fileKeys()[key]
		if key == "sequence_length" && f.sequence == 0 { // it is what the file declares
			names = fileKeys()["positions"]
		}
		if f.modelType == "gpt2" {
			names = slices.Clone(names)
			slices.Reverse(names)
		}
		for _, name := range names {
			if own := f.ownName(name); own != name {
				return own + f.ownValue(name, text[len(key):])
			}
		}
		for _, name := range slices.Concat(slices.DeleteFunc(slices.Clone(names), f.absent), names) {
			return name + f.ownValue(name, text[len(key):])
		}
		return text
	}))
}

// ownName returns what the type of a file calls a key.
func (f configFile) ownName(name string) string {
	for own, other := range llamaTypes()[f.modelType].aliases {
		if other == name && f.keys.given(own) {
			return own
		}
	}
	return name
}

// ownValue returns what follows a key. Where psim made another value than the file's, it gives both.
func (f configFile) ownValue(name, rest string) string {
	value, isNumber := strings.CutPrefix(rest, " = ")
	given := string(f.keys[name])
	if n, err := strconv.Atoi(given); !isNumber || value == "" || err != nil || n < 0 || given == value {
		return rest
	}
	return fmt.Sprintf(" = %s (%s here)", given, value)
}

// InWords makes an error about the Model of a file, which was read before, one about the file.
func InWords(data []byte, err error) error {
	data = quoteNonNumbers(bytes.TrimPrefix(data, []byte("\ufeff")))
	keys, unread := readKeys(data)
	if text, inner := readKeys(keys["text_config"]); inner == nil && len(text) > 0 {
		keys = text
	}
	var modelType string
	if unread != nil || json.Unmarshal(keys["model_type"], &modelType) != nil {
		return err
	}
	return configFile{data, keys, modelType, 1}.inFileWords(err)
}

// absent reports whether the file has no value for a key.
func (f configFile) absent(key string) bool { return !f.keys.given(key) }

// unmarshal reads JSON, with errors that say where it ends being JSON, or what a key must be.
func unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("is %s: must be an object", wrong.Value)
	case errors.As(err, &syntax):
		before := data[:max(0, min(int(syntax.Offset), len(data))-1)]
		return fmt.Errorf("line %d, column %d: %w", 1+bytes.Count(before, []byte("\n")),
			len(before)-bytes.LastIndexByte(before, '\n'), err)
	}
	return err
}

// kindOf describes the values of a key.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Int:
		return "a whole number below 2⁶³"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return "a list of texts"
		}
		if t.Elem().Kind() == reflect.Struct {
			return "a list of objects with attention and ffn"
		}
		return "a list of whole numbers"
	}
	return "an object"
}
