package hfconfig

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
)

// kimi are sizes of Kimi Linear, of four blocks.
const kimi = `"vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
		"intermediate_size": 96, "moe_intermediate_size": 32, "kv_lora_rank": 16, "q_lora_rank": null, "qk_rope_head_dim": 8,
		"qk_nope_head_dim": 8, "v_head_dim": 8, "num_experts": 8, "num_experts_per_token": 2, "num_shared_experts": 1,
		"first_k_dense_replace": 1, "num_expert_group": 1, "topk_group": 1`

// Published configurations have the counts of parameters that their checkpoints or reports
// have; of a token they name billions. Checkpoints with modules that predict have a table
// and a head for each.
func TestPublishedCounts(t *testing.T) {
	for _, c := range publishedConfigs(t) {
		m, _, err := Parse(c.Config, 4096)
		require.NoError(t, err, c.Name)
		n := networkOf(t, m)
		assert.Equal(t, c.Parameters, n.Parameters(), c.Name)
		if c.Active > 0 {
			assert.InEpsilon(t, c.Active, float64(n.ActiveParameters()), 0.02, c.Name)
		} else {
			assert.Equal(t, c.Parameters, n.ActiveParameters(), c.Name)
		}
		if c.Checkpoint > 0 {
			m.MTPLayers = 1
			assert.Equal(t, c.Checkpoint, networkOf(t, m).Parameters()+2*int64(m.Vocab*m.Hidden), c.Name)
		}
	}
}

// A publishedConfig is a file of testdata/published.json.
type publishedConfig struct {
	Name                   string
	Parameters, Checkpoint int64
	FLOPs                  int64 // of a forward pass over 1,024 tokens, as transformers counts; 0 where it does not run
	Active                 float64
	Kept                   [][2]int64 // what blocks keep for their backward: bytes, and of how many; 0 is not counted
	Flash                  bool       // with fused attention
	Config                 json.RawMessage
}

// modelType returns the type of a file, of its text where it has one.
func (c publishedConfig) modelType(t *testing.T) string {
	var named struct {
		Type string `json:"model_type"`
	}
	require.NoError(t, json.Unmarshal(c.Config, &named))
	return named.Type
}

func publishedConfigs(t *testing.T) (list []publishedConfig) {
	data, err := os.ReadFile("testdata/published.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &list))
	require.GreaterOrEqual(t, len(list), 12)
	return list
}

// Presets are the networks of the published files.
func TestPresetsArePublished(t *testing.T) {
	files := map[string]models.Model{}
	for _, c := range publishedConfigs(t) {
		m, _, err := Parse(c.Config, 4096)
		require.NoError(t, err, c.Name)
		files[strings.ToLower(c.Name)] = m
	}
	files["nemotron-super-49b"] = files["llama-3_3-nemotron-super-49b-v1"]
	files["llama3-405b"] = files["llama-3.1-405b"]
	for _, name := range []string{
		"llama3-405b", "mixtral-8x22b", "qwen2.5-72b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3", "gpt-oss-20b", "gpt-oss-120b", "nemotron-super-49b",
	} {
		want, got := networkOf(t, files[name]), networkOf(t, models.Model{Preset: name, SequenceLength: 4096})
		resolved, err := models.Model{Preset: name}.Resolved()
		require.NoError(t, err)
		assert.Equal(t, files[name].Eager, resolved.Eager, name)
		assert.Equal(t, want.Layers, got.Layers, name)
		assert.Equal(t, want.Routing, got.Routing, name)
	}
}

// What a file has that psim does not read is named.
func TestUnread(t *testing.T) {
	for _, c := range publishedConfigs(t) {
		_, unread, err := Parse(c.Config, 4096)
		require.NoError(t, err)
		want := map[string][]string{
			"DeepSeek-V3":        {"num_nextn_predict_layers = 1: modules", "quantization_config = {…}: weights have"},
			"gpt-oss-20b":        {"quantization_config = {…}: weights have"},
			"gpt-oss-120b":       {"quantization_config = {…}: weights have"},
			"Llama-4-Scout text": {"vision_config = {…}: the network for text"}, "Llama-4-Maverick text": {"vision_config = {…}: the network for text"},
			"gemma-2-2b": {"attn_logit_softcapping = 50.0: a tanh", "final_logit_softcapping = 30.0: a tanh"}, "gemma-2-9b": {"attn_", "final_"}, "gemma-2-27b": {"attn_", "final_"},
			"gemma-3-27b text": {"vision_config", "vocab_size is not given"},
			"GLM-4.5":          {"num_nextn_predict_layers"}, "GLM-4.5-Air": {"num_nextn_predict_layers"},
		}[c.Name]
		require.Len(t, unread, len(want), "%s: %q", c.Name, unread)
		for i := range want {
			assert.True(t, strings.HasPrefix(unread[i], want[i]), "%s: %s", c.Name, unread[i])
		}
	}
	_, unread, err := Parse([]byte(`{"model_type": "llama", "attention_dropout": 0.1, "engram_size": 3, "use_cache": true}`), 8)
	require.NoError(t, err)
	assert.Equal(t, []string{"attention_dropout = 0.1: dropout is left out", "engram_size = 3: psim does not know this key, and leaves it out"}, unread)
}

// Ordinary files of hybrids give no warning, and blocks of Kimi Linear whose kind is not given do.
func TestHybridNotes(t *testing.T) {
	for config, want := range map[string]string{
		`{"model_type": "mamba2", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 16,
			"state_size": 16, "n_groups": 1, "rms_norm": true, "norm_before_gate": true, "expand": 2}`: "",
		`{"model_type": "kimi_linear", ` + kimi + `, "mla_use_nope": true, "moe_renormalize": true, "use_grouped_topk": true,
			"moe_router_activation_func": "sigmoid", "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3],
			"num_heads": 4, "head_dim": 16, "short_conv_kernel_size": 4}}`: "",
		`{"model_type": "kimi_linear", ` + kimi + `}`: `linear_attn_config is not given: it is taken to be the default of model_type "kimi_linear"`,
		`{"model_type": "falcon_h1", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
			"num_key_value_heads": 4, "intermediate_size": 96, "mamba_d_ssm": 128, "mamba_n_heads": 8, "mamba_d_head": 16,
			"mamba_n_groups": 1, "mamba_use_mlp": true, "attention_in_multiplier": 1.5, "attention_out_multiplier": 0.9}`: "",
		`{"model_type": "bamba", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
			"num_key_value_heads": 4, "intermediate_size": 96, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1,
			"attn_layer_indices": [1], "attn_rotary_emb": 64}`: "",
		`{"model_type": "granitemoehybrid", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
			"num_key_value_heads": 4, "intermediate_size": 96, "shared_intermediate_size": 96, "num_local_experts": 0,
			"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1, "layer_types": ["mamba", "attention"],
			"normalization_function": "rmsnorm"}`: "",
	} {
		_, notes, err := Parse([]byte(config), 8)
		require.NoError(t, err, config)
		if want == "" {
			require.Empty(t, notes, config)
			continue
		}
		require.Len(t, notes, 1, "%s: %q", config, notes)
		require.Contains(t, notes[0], want)
	}
	for lists, want := range map[string]string{
		`"full_attn_layers": [4], "kda_layers": [1, 2]`:          "linear_attn_config: block 3 is in neither full_attn_layers nor kda_layers",
		`"full_attn_layers": [4]`:                                "linear_attn_config: block 1 is in neither",
		`"full_attn_layers": [3, 4], "kda_layers": [1, 2, 3]`:    "full_attn_layers and kda_layers have block 3 2 times",
		`"full_attn_layers": [4], "kda_layers": [0, 1, 2, 3]`:    "linear_attn_config names block 0: must be from 1 to num_hidden_layers = 4",
		`"full_attn_layers": [4, 5], "kda_layers": [1, 2, 3]`:    "linear_attn_config names block 5",
		`"kda_layers": [1, 2, 3, 4], "full_attn_layers": [4, 4]`: "block 4 3 times",
	} {
		_, _, err := Parse([]byte(`{"model_type": "kimi_linear", `+kimi+`, "linear_attn_config": {"num_heads": 4, "head_dim": 16, `+lists+`}}`), 8)
		require.ErrorContains(t, err, want, lists)
	}
	_, _, err := Parse([]byte(`{"model_type": "granitemoehybrid", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 1,
		"num_attention_heads": 4, "intermediate_size": 96, "shared_intermediate_size": 96, "layer_types": ["mamba"], "normalization_function": "layernorm"}`), 8)
	require.ErrorContains(t, err, `normalization_function = "layernorm" is not supported; must be "rmsnorm"`)
	_, _, err = Parse([]byte(`{"model_type": "kimi_linear", `+kimi+`, "mla_use_nope": false}`), 8)
	require.ErrorContains(t, err, "mla_use_nope = false is not supported; must be true")
}

// Numbers and lists of blocks that cannot be are refused before patterns are made of them.
func TestHybridBlocks(t *testing.T) {
	const sizes = `"vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "num_hidden_layers": `
	for config, want := range map[string]string{
		`{"model_type": "mamba2", "num_heads": 8, "head_dim": 16, "n_groups": 1, ` + sizes + `9223372036854775807}`:                    "num_hidden_layers = 9223372036854775807: must be 1 to 10000",
		`{"model_type": "bamba", ` + sizes + `100000000000, "attn_layer_indices": [1]}`:                                                "num_hidden_layers = 100000000000: must be 1 to 10000",
		`{"model_type": "bamba", ` + sizes + `10001, "attn_layer_indices": [1]}`:                                                       "num_hidden_layers = 10001: must be 1 to 10000",
		`{"model_type": "falcon_h1", ` + sizes + `4611686018427387905, "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_n_groups": 1}`:    "must be 1 to 10000",
		`{"model_type": "bamba", ` + sizes + `2, "attn_layer_indices": [1, 2]}`:                                                        "attn_layer_indices has 2: must list blocks of 0 to 1, each once",
		`{"model_type": "bamba", ` + sizes + `2, "attn_layer_indices": [1, 1]}`:                                                        "attn_layer_indices has 1",
		`{"model_type": "kimi_linear", ` + strings.Replace(kimi, `"first_k_dense_replace": 1`, `"first_k_dense_replace": -1`, 1) + `}`: "first_k_dense_replace = -1: must be 0 to 3",
		`{"model_type": "kimi_linear", ` + kimi + `, "num_heads": 4, "head_dim": 16, "layer_types": ["a", "b", "", "c"]}`:              `layer_types has "a" for block 0`,
	} {
		_, _, err := Parse([]byte(config), 8)
		require.ErrorContains(t, err, want, config)
	}
}

// Blocks that differ in ways that no Model says are refused by name.
func TestParseBlockErrors(t *testing.T) {
	const sizes = `"vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 96, `
	for config, want := range map[string]string{
		`{"model_type": "qwen3", "hidden_size": 64}`:                                                                                              `has no vocab_size, which model_type "qwen3" needs`,
		`{"model_type": "qwen3_moe", ` + sizes + `"num_experts_per_tok": 2}`:                                                                      "has no num_experts or num_local_experts",
		`{"model_type": "gpt_oss", ` + sizes + `"num_key_value_heads": 4, "num_experts": 4, "num_experts_per_tok": 8}`:                            "num_experts_per_tok = 8: must be at most num_experts = 4",
		`{"model_type": "gemma2", ` + sizes + `"layer_types": ["full_attention"]}`:                                                                "layer_types has 1 entries",
		`{"model_type": "gemma2", ` + sizes + `"layer_types": ["a", "b", "c", "linear_attention"]}`:                                               `layer_types has "a", which psim does not model`,
		`{"model_type": "gemma2", ` + sizes + `"layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"]}`: "block 1 does not fit this",
		`{"model_type": "qwen3", ` + sizes + `"use_sliding_window": true, "max_window_layers": 2}`:                                                "max_window_layers = 2: psim models windows in all blocks",
		`{"model_type": "llama4"}`:                                     `has no text_config, which model_type "llama4" needs`,
		`{"model_type": "llama4", "text_config": {"hidden_size": 64}}`: "text_config: has no num_hidden_layers",
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "num_hidden_layers": 2}`:                                                                                    `has no hybrid_override_pattern or layers_block_type or layer_types`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "M*H"}`:                                                                          `hybrid_override_pattern has 'H' at block 2: must be M (Mamba-2), * (attention), - (MLP) or E (experts)`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "M*E"}`:                                                                          `has no n_routed_experts, which the experts among its blocks need`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "layers_block_type": ["mamba", "moe"], "n_routed_experts": 4, "num_experts_per_tok": 2}`:                    `has no moe_intermediate_size, which the experts`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "M*", "mtp_hybrid_override_pattern": "*X"}`:                                      `mtp_hybrid_override_pattern has 'X' at block 1: must be M`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "M*", "mtp_layers_block_type": ["conv"]}`:                                        `mtp_layers_block_type has "conv", which psim does not model here`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "MXE"}`:                                                                          `hybrid_override_pattern has 'X' at block 1: must be M (Mamba-2)`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": ""}`:                                                                             `hybrid_override_pattern = "": must have a letter`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "layers_block_type": ["mamba", "conv"]}`:                                                                    `layers_block_type has "conv", which psim does not model here; it models mamba, attention, mlp, moe`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "M-*-", "num_hidden_layers": 6}`:                                                 `num_hidden_layers = 6: the pattern of layers has 4`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "M-*-", "use_bias": true}`:                                                       `use_bias = true is not supported`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "M-*-", "use_conv_bias": false}`:                                                 `use_conv_bias = false is not supported`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "M-*-", "n_groups": 3}`:                                                          `n_groups = 3: must divide mamba_num_heads = 128`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "M-*-", "ssm_state_size": 0}`:                                                    `ssm_state_size = 0: must be at least 1`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "M-*-", "mlp_hidden_act": "tanh"}`:                                               `mlp_hidden_act = "tanh" is not supported; must be silu, gelu`,
		`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 4, "intermediate_size": 96, "hybrid_override_pattern": "MEM*", "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 48}`: `moe_shared_expert_intermediate_size = 48: psim models shared experts as wide`,
		`{"model_type": "llama", "hidden_act": "tanh"}`:               `hidden_act = "tanh" is not supported; must be silu, gelu, gelu_new`,
		`{"model_type": "gemma", "hidden_activation": "mish"}`:        `hidden_activation = "mish" is not supported`,
		`{"model_type": "gpt2", "activation_function": "quick_gelu"}`: `activation_function = "quick_gelu" is not supported`,
		`{"model_type": "llama", "hidden_act": 3}`:                    "hidden_act = 3: must be a text",
		`{"model_type": "phi", ` + sizes + `"qk_layernorm": true}`:    "qk_layernorm = true is not supported",
		`{"model_type": "bloom", "n_embed": 64, "hidden_size": 32}`:   "n_embed = 64 and hidden_size = 32 are the same setting; remove one",
		`{"model_type": "bloom", "n_head": 3}`:                        "n_head = 3: must divide hidden_size = 64",
		`{"model_type": "opt", "vocab_size": 8, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "ffn_dim": 96, "word_embed_proj_dim": 32}`:                              "word_embed_proj_dim = 32 is not supported; must be hidden_size = 64",
		`{"model_type": "opt", "vocab_size": 8, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "ffn_dim": 96, "do_layer_norm_before": false}`:                          "do_layer_norm_before = false is not supported",
		`{"model_type": "opt", "vocab_size": 8, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "ffn_dim": 96, "max_position_embeddings": 4}`:                           "sequence_length = 8: must be at most max_position_embeddings = 4",
		`{"model_type": "qwen2_moe", ` + sizes + `"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "num_key_value_heads": 4, "shared_expert_intermediate_size": 48}`: "shared_expert_intermediate_size = 48: psim models shared experts as wide",
		`{"model_type": "kimi_k3"}`:    "psim does not model residuals by attention to earlier blocks",
		`{"model_type": "qwen3_next"}`: `has no vocab_size, which model_type "qwen3_next" needs`,
		`{"model_type": "qwen3_5_text", ` + sizes + `"layer_types": ["linear_attention", "sliding_attention", "full_attention", "full_attention"]}`:                                                                                    `layer_types has "sliding_attention", which psim does not model here; it models full_attention, linear_attention`,
		`{"model_type": "qwen3_5_text", ` + sizes + `"layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"]}`:                                                                                     "block 1 does not fit this",
		`{"model_type": "qwen3_5_text", ` + sizes + `"attn_output_gate": false}`:                                                                                                                                                       "attn_output_gate = false is not supported",
		`{"model_type": "qwen3_5_text", ` + sizes + `"full_attention_interval": 0}`:                                                                                                                                                    "full_attention_interval = 0: must be at least 1",
		`{"model_type": "qwen3_5_text", ` + sizes + `"linear_num_key_heads": 5}`:                                                                                                                                                       "linear_num_key_heads = 5: must divide linear_num_value_heads = 32",
		`{"model_type": "qwen3_5_text", ` + sizes + `"linear_key_head_dim": 0}`:                                                                                                                                                        "linear_key_head_dim = 0: must be at least 1",
		`{"model_type": "qwen3_5_moe_text", ` + sizes + `"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48}`:                                                              "shared_expert_intermediate_size = 48: psim models shared experts as wide as others (moe_intermediate_size = 32)",
		`{"model_type": "step3p5", ` + sizes + `"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "share_expert_dim": 32, "attention_other_setting": {"num_attention_heads": 12, "num_attention_groups": 5}}`:   "attention_other_setting: num_attention_groups = 5 must divide num_attention_heads = 12",
		`{"model_type": "step3p5", ` + sizes + `"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "share_expert_dim": 32, "attention_other_setting": {"head_dim": 0}}`:                                          "attention_other_setting: head_dim = 0: must be at least 1",
		`{"model_type": "step3p5", ` + sizes + `"num_key_value_heads": 2, "moe_num_experts": 8, "moe_top_k": 9, "moe_intermediate_size": 32, "share_expert_dim": 32}`:                                                                  "moe_top_k = 9: must be at most moe_num_experts = 8",
		`{"model_type": "gemma4_text", ` + sizes + `"hidden_size_per_layer_input": 0, "attention_k_eq_v": true, "num_global_key_value_heads": 3}`:                                                                                      "num_global_key_value_heads: 3 must divide num_attention_heads = ",
		`{"model_type": "gemma4_text", ` + sizes + `"hidden_size_per_layer_input": 0, "sliding_window": 0}`:                                                                                                                            "sliding_window = 0: must be at least 1, for blocks with a window",
		`{"model_type": "nemotron-nas", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "block_configs": [7]}`:                                                                                  "block_configs = [7]: must be a list of objects with attention and ffn",
		`{"model_type": "nemotron-nas", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "block_configs": []}`:                                                                                   "block_configs has 0 entries: must have num_hidden_layers = 1",
		`{"model_type": "nemotron-nas", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "block_configs": [{"attention": {"no_op": true}, "ffn": {"no_op": true}}]}`:                             "block 0: psim models blocks with attention or an MLP",
		`{"model_type": "nemotron-nas", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "block_configs": [{"attention": {"replace_with_linear": true}, "ffn": {"no_op": true}}]}`:               "replace_with_linear = true is not supported",
		`{"model_type": "nemotron-nas", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "block_configs": [{"attention": {"n_heads_in_group": 3}, "ffn": {"no_op": true}}]}`:                     "n_heads_in_group must divide num_attention_heads = 4",
		`{"model_type": "nemotron-nas", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "block_configs": [{"attention": {"no_op": true}, "ffn": {"ffn_mult": -1}}]}`:                            "ffn_mult must be a number above 0",
		`{"model_type": "nemotron-nas", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "block_configs": [{"attention": {"n_heads_in_group": 1, "window_length": 8}, "ffn": {"no_op": true}}]}`: "num_sink_tokens, window_length",
		`{"model_type": "mimo_v2_flash", ` + sizes + `"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "hybrid_layer_pattern": [0, 7, 1, 0]}`:                                                             "hybrid_layer_pattern[1] = 7: must be 0 or 1",
		`{"model_type": "mimo_v2_flash", ` + sizes + `"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "moe_layer_freq": [0, 1, 1, 9]}`:                                                                   "moe_layer_freq[3] = 9: must be 0 or 1",
		`{"model_type": "mimo_v2_flash", ` + sizes + `"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "hybrid_layer_pattern": [0, 1]}`:                                                                   "hybrid_layer_pattern has 2 entries: must have num_hidden_layers = 4",
		`{"model_type": "mimo_v2_flash", ` + sizes + `"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "moe_layer_freq": [0, 1, 0, 1]}`:                                                                   "moe_layer_freq: psim models blocks without experts before all others, and block 2",
		`{"model_type": "mimo_v2_flash", ` + sizes + `"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "swa_v_head_dim": 64}`:                                                                             "swa_v_head_dim = 64: psim models values as wide",
		`{"model_type": "step3p5", ` + sizes + `"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "share_expert_dim": 48}`:                                                                                      "share_expert_dim = 48: psim models shared experts as wide",
		`{"model_type": "step3p5", ` + sizes + `"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "share_expert_dim": 32, "moe_layers_enum": "2,4"}`:                                                            "moe_layers_enum names block 4: must be from 0 to 3",
		`{"model_type": "step3p5", ` + sizes + `"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "share_expert_dim": 32, "layer_types": ["chunked_attention","","",""]}`:                                       `layer_types has "chunked_attention", which psim does not model here`,
		`{"model_type": "step3p5", ` + sizes + `"moe_layers_enum": "a", "num_experts": 8, "moe_intermediate_size": 32}`:                                                                                                                `moe_layers_enum = "a": must be`,
		`{"model_type": "gemma4", "text_config": {` + sizes + `"hidden_size_per_layer_input": 256}}`:                                                                                                                                   "hidden_size_per_layer_input = 256: psim does not model embeddings of every block",
		`{"model_type": "gemma4_text", ` + sizes + `"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 2}`:                                                                                                                      "num_kv_shared_layers = 2: psim does not model keys and values of earlier blocks",
		`{"model_type": "gemma4_text", ` + sizes + `"hidden_size_per_layer_input": 0, "enable_moe_block": true}`:                                                                                                                       "enable_moe_block = true: num_experts must be above 0",
	} {
		_, _, err := Parse([]byte(config), 8)
		assert.ErrorContains(t, err, want, config)
	}
}

// Networks have the parameters that transformers counts, and the FLOPs of a forward pass over 1,024 tokens that
// PyTorch counts, to the last one. transformers.json is of transformers 5.23.0 and PyTorch 2.15 on the meta device
// with eager attention: sizes by default of a configuration class, or of the file on huggingface.co that has the
// name. Of models with images it is the network for text. Biases of routers, which transformers does not train, are psim's alone.
// FLOPs of scans are left out on both sides: transformers has no kernels for them there, and its substitute solves a
// triangular system, which the counter does not see. Of its modules with scans the products with weights are counted.
func TestTransformersCounts(t *testing.T) {
	list := countedConfigs(t)
	require.GreaterOrEqual(t, len(list), 46)
	for _, c := range list {
		m, _, err := Parse(c.Config, 1024)
		require.NoError(t, err, c.Name)
		n := networkOf(t, m)
		routers, scans := int64(0), 0.0
		for _, l := range n.Layers {
			for _, op := range l.Ops {
				if op.Class == network.Scan {
					scans += op.FLOPs(network.Forward)
				}
			}
		}
		for _, tensor := range n.ParameterTensors() {
			if strings.HasSuffix(tensor.Name, "gate.correction") {
				routers += int64(tensor.Shape.Elements())
			}
		}
		assert.Equal(t, c.Parameters, n.Parameters()-routers, c.Name)
		if c.FLOPs > 0 {
			assert.Equal(t, c.FLOPs, int64(n.FLOPs(network.Forward)-scans), c.Name)
		}
	}
}

// countedConfigs reads what transformers counts of configurations.
func countedConfigs(t *testing.T) []publishedConfig {
	data, err := os.ReadFile("testdata/transformers.json")
	require.NoError(t, err)
	var counted struct {
		Transformers, Torch string
		Models              []publishedConfig
	}
	require.NoError(t, json.Unmarshal(data, &counted))
	require.NotEmpty(t, counted.Transformers)
	return counted.Models
}

// Files of models for text and images are read by their text_config, whatever stands where.
func TestTextConfig(t *testing.T) {
	const sizes = `"vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 96`
	tied := func(config string) bool {
		m, _, err := Parse([]byte(config), 8)
		require.NoError(t, err, config)
		return *m.Tied
	}
	assert.False(t, tied(`{"model_type": "qwen3_vl", "text_config": {`+sizes+`}}`))
	assert.True(t, tied(`{"model_type": "qwen3_vl", "tie_word_embeddings": true, "text_config": {`+sizes+`}}`))
	assert.False(t, tied(`{"model_type": "qwen3_vl", "tie_word_embeddings": false, "text_config": {"tie_word_embeddings": true, `+sizes+`}}`))
	assert.False(t, tied(`{"model_type": "qwen2_vl", "vision_config": {}, `+sizes+`}`), "keys of the text beside the others")
	m, notes, err := Parse([]byte(`{"model_type": "qwen3_vl", "hidden_size": 32, "num_hidden_layers": 4, "text_config": {`+sizes+`}}`), 8)
	require.NoError(t, err)
	assert.Equal(t, 64, m.Hidden)
	assert.Equal(t, []string{"hidden_size = 32: text_config has 64, which is read"}, notes)
	m, notes, err = Parse([]byte(`{"model_type": "llava", "vision_config": {"a": 1}, "text_config": {"model_type": "qwen2", `+sizes+`}}`), 8)
	require.NoError(t, err)
	assert.True(t, m.QKVBias, "a Qwen 2")
	assert.Equal(t, []string{"vision_config = {…}: the network for text alone is read"}, notes)
	for config, want := range map[string]string{
		`{"model_type": "llava", "text_config": {"model_type": "gptj"}}`:            `text_config: model_type "gptj" is not supported; the nearest is "gpt2"`,
		`{"model_type": "mistral3"}`:                                                `has no text_config, which model_type "mistral3" needs`,
		`{"model_type": "kimi_k25", "text_config": 3}`:                              "text_config: is number: must be an object",
		`{"model_type": "qwen3_vl", "text_config": {"model_type": 3}}`:              "text_config: model_type = 3: must be a text",
		`{"model_type": "exaone4", "sliding_window_pattern": "LGL", ` + sizes + `}`: `sliding_window_pattern = "LGL": must be`,
	} {
		_, _, err := Parse([]byte(config), 8)
		assert.ErrorContains(t, err, want, config)
	}
	m, _, err = Parse([]byte(`{"model_type": "exaone4", "sliding_window_pattern": "LLLG", `+sizes+`}`), 8)
	require.NoError(t, err)
	assert.Equal(t, 4, m.FullAttentionEvery)
}

// Presets of further models are the networks of files whose counts are known.
func TestFurtherPresets(t *testing.T) {
	list := append(countedConfigs(t), publishedConfigs(t)...)
	found := 0
	for preset, name := range map[string]string{
		"nemotron3-nano-30b-a3b":    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
		"nemotron3-super-120b-a12b": "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
		"nemotron3-ultra-550b-a55b": "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
		"qwen3-next-80b-a3b":        "qwen3_next by defaults",
		"qwen3-8b":                  "Qwen3-8B",
		"qwen3-32b":                 "Qwen/Qwen3-32B-FP8",
		"qwen3.5-27b":               "Qwen/Qwen3.5-27B",
		"qwen3.5-397b-a17b":         "Qwen/Qwen3.5-397B-A17B",
		"deepseek-v2-lite":          "DeepSeek-V2-Lite",
		"deepseek-v3.2":             "deepseek-ai/DeepSeek-V3.2",
		"kimi-k2":                   "nvidia/Kimi-K2.5-NVFP4", // its text has the sizes of Kimi K2
		"glm-4.5":                   "GLM-4.5",
		"glm-4.5-air":               "GLM-4.5-Air",
		"glm-5":                     "zai-org/GLM-5-FP8",
		"minimax-m2.5":              "MiniMaxAI/MiniMax-M2.5",
		"mimo-v2-flash":             "XiaomiMiMo/MiMo-V2-Flash",
		"step-3.7-flash":            "stepfun-ai/Step-3.7-Flash-FP8 with 96 heads in blocks with a window",
		"gemma4-26b-a4b":            "google/gemma-4-26B-A4B",
		"gemma4-31b":                "google/gemma-4-31B",
		"llama4-scout":              "Llama-4-Scout text",
		"llama4-maverick":           "Llama-4-Maverick text",
		"gemma2-9b":                 "gemma-2-9b",
		"gemma3-27b":                "gemma-3-27b text",
		"phi-4":                     "Phi-4",
		"nemotron-h-56b":            "nvidia/Nemotron-H-56B-Base-8K",
	} {
		for _, c := range list {
			if c.Name != name {
				continue
			}
			found++
			m, _, err := Parse(c.Config, 4096)
			require.NoError(t, err, name)
			want, got := networkOf(t, m), networkOf(t, models.Model{Preset: preset, SequenceLength: 4096})
			resolved, err := models.Model{Preset: preset}.Resolved()
			require.NoError(t, err)
			assert.Equal(t, m.Eager, resolved.Eager, name)
			assert.Equal(t, want.Layers, got.Layers, name)
			assert.Equal(t, want.Routing, got.Routing, name)
		}
	}
	assert.Equal(t, 25, found)
}
