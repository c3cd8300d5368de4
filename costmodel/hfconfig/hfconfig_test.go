package hfconfig

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
)

func TestParseConfig(t *testing.T) {
	for _, c := range []struct {
		name, config string
		sequence     int
		parameters   int64
		tokens       int
	}{
		{"gpt2 by defaults", `{"model_type": "gpt2"}`, 128, 124_439_808, 128},
		{"gpt2, longest", `{"model_type": "gpt2", "n_inner": null, "architectures": ["GPT2LMHeadModel"]}`, 0, 124_439_808, 1024},
		{"gpt2-medium", `{"model_type": "gpt2", "n_embd": 1024, "n_layer": 24, "n_head": 16, "n_ctx": 1024}`, 128, 354_823_168, 128},
		{"gpt2, n_inner", `{"model_type": "gpt2", "n_inner": 768, "n_layer": 1}`, 8, 124_439_808 - 11*7_087_872 - 3*768*(2*768+1), 8},
		{"llama by defaults", `{"model_type": "llama"}`, 128, 6_738_415_616, 128},
		{"llama3-8b", `{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192,
			"num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
			"tie_word_embeddings": false, "rope_theta": 500000.0}`, 0, 8_030_261_248, 8192},
		{"mistral by defaults", `{"model_type": "mistral"}`, 4096, 7_241_732_096, 4096},
		{"mistral, null kv heads", `{"model_type": "mistral", "num_key_value_heads": null, "num_hidden_layers": 1}`, 8,
			2*32000*4096 + 4*4096*4096 + 3*4096*14336 + 3*4096, 8},
		{"mixtral by defaults", `{"model_type": "mixtral"}`, 4096, 46_702_792_704, 4096},
		{"one expert is none", `{"model_type": "llama", "num_local_experts": 1, "num_experts": 0}`, 128, 6_738_415_616, 128},
		{"gpt2-medium by its other names", `{"model_type": "gpt2", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
			"max_position_embeddings": 1024}`, 0, 354_823_168, 1024},
		{"both names, the same", `{"model_type": "gpt2", "n_embd": 1024, "hidden_size": 1024, "n_layer": 24, "n_head": 16}`, 128, 354_823_168, 128},
		{"mixtral, its other name", `{"model_type": "mixtral", "num_experts": 8}`, 4096, 46_702_792_704, 4096},
		{"mixtral, its other name alone", `{"model_type": "mixtral", "num_local_experts": null, "num_experts": 8}`, 4096, 46_702_792_704, 4096},
		{"byte order mark", "\ufeff" + `{"model_type": "gpt2", "quantization_config": null}`, 128, 124_439_808, 128},
		{"qwen2-7b", `{"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
			"num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "use_sliding_window": false}`, 128, 7_615_616_512, 128},
		{"qwen2.5-0.5b", `{"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
			"num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": true}`, 0, 494_032_768, 32768},
		{"gemma-7b by defaults", `{"model_type": "gemma"}`, 128, 8_537_680_896, 128},
		{"gemma-2b", `{"model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18,
			"num_attention_heads": 8, "num_key_value_heads": 1}`, 0, 2_506_172_416, 8192},
		{"llama, tied, head_dim", `{"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2,
			"num_hidden_layers": 1, "head_dim": 48, "vocab_size": 10, "tie_word_embeddings": true}`, 8,
			10*64 + 4*64*96 + 3*64*96 + 3*64, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _, err := Parse([]byte(c.config), c.sequence)
			require.NoError(t, err)
			n := networkOf(t, m)
			assert.Equal(t, c.parameters, n.Parameters())
			assert.Equal(t, c.tokens, n.TokensPerSample)
		})
	}
}

func TestParseConfigErrors(t *testing.T) {
	for _, c := range []struct {
		config   string
		sequence int
		want     string
	}{
		{"", 8, "is empty"},
		{" \n", 8, "is empty"},
		{"\x7fELF\x00", 8, "binary file"},
		{"model_type = gpt2", 8, "line 1, column 1: invalid character"},
		{"{\n\"model_type\": \"gpt2\"", 8, "line 2, column 20: unexpected end"},
		{`{"model_type": "gpt2"} x`, 8, "invalid character"},
		{`[1]`, 8, "is array: must be an object"},
		{`null`, 8, "has no model_type"},
		{`{}`, 8, "has no model_type; must be one of gpt2, llama, mistral"},
		{`{"model_type": "bert", "add_cross_attention": true}`, 8, `add_cross_attention = true is not supported`},
		{`{"model_type": "bert", "type_vocab_size": 0}`, 8, `type_vocab_size = 0: must be at least 1`},
		{`{"model_type": "bert", "hidden_dropout_prob": 0}`, 8, `hidden_dropout_prob = 0 and attention_probs_dropout_prob = 0.1: psim models`},
		{`{"model_type": "bert", "hidden_dropout_prob": "a"}`, 8, `hidden_dropout_prob = "a": must be a number`},
		{`{"model_type": "bert", "position_embedding_type": "relative_key"}`, 8, `position_embedding_type = "relative_key" is not supported`},
		{`{"model_type": "bert", "attention_probs_dropout_prob": 1.5}`, 8, `dropout of 1.5: must be at least 0 and less than 1`},
		{`{"model_type": "roberta", "max_position_embeddings": 514}`, 513, `sequence_length = 513: must be at most max_position_embeddings − 2 = 512`},
		{`{"model_type": "roberta", "max_position_embeddings": 2}`, 1, `max_position_embeddings = 2: must be above 2`},
		{`{"model_type": "siglip"}`, 8, `model_type "siglip" is not supported; must be one of gpt2, llama, mistral, mixtral, qwen2, gemma, gemma2`},
		{`{"model_type": "vit", "quantization_config": {}}`, 8, `model_type "vit" is not supported`},
		{`{"model_type": 3}`, 8, "model_type = 3: must be a text"},
		{`{"model_type": "gpt2", "n_layer": "12"}`, 8, `n_layer = "12": must be a whole number below 2⁶³`},
		{`{"model_type": "gpt2", "n_layer": 0}`, 8, "n_layer = 0: must be at least 1"},
		{`{"model_type": "gpt2", "n_inner": -1}`, 8, "n_inner = -1"},
		{`{"model_type": "gpt2", "n_head": 7}`, 8, "n_head = 7: must divide n_embd = 768"},
		{`{"model_type": "gpt2", "add_cross_attention": true}`, 8, "add_cross_attention = true is not supported"},
		{`{"model_type": "gpt2"}`, 2048, "sequence_length = 2048: must be at most n_positions = 1024"},
		{`{"model_type": "gpt2"}`, -1, "sequence_length = -1"},
		{`{"model_type": "gpt2", "n_embd": 768, "hidden_size": 1024}`, 8, "n_embd = 768 and hidden_size = 1024 are the same setting; remove one"},
		{`{"model_type": "gpt2", "hidden_size": "1024"}`, 8, `hidden_size = "1024": must be a whole number below 2⁶³`},
		{`{"model_type": "gpt2", "num_hidden_layers": 0}`, 8, "num_hidden_layers = 0: must be at least 1"},
		{`{"model_type": "gpt2", "N_Layer": 24}`, 8, `unknown key "N_Layer"; write "n_layer"`},
		{`{"Model_Type": "gpt2"}`, 8, `unknown key "Model_Type"; write "model_type"`},
		{`{"model_type": "llama", "HIDDEN_SIZE": 64}`, 8, `unknown key "HIDDEN_SIZE"; write "hidden_size"`},
		{`{"model_type": "llama", "num_local_experts": 8}`, 8, `num_local_experts = 8 is not supported with model_type "llama"; use model_type "mixtral", or remove it`},
		{`{"model_type": "mistral", "num_experts": 4}`, 8, `num_experts = 4 is not supported with model_type "mistral"`},
		{`{"model_type": "gpt2", "Num_Experts": 4}`, 8, `unknown key "Num_Experts"; write "num_experts"`},
		{`{"model_type": "mixtral", "num_local_experts": 8, "num_experts": 4}`, 8, "num_local_experts = 8 and num_experts = 4 are the same setting"},
		{`{"model_type": "mistral", "attention_bias": true}`, 8, "attention_bias = true is not supported"},
		{`{"model_type": "mixtral", "num_local_experts": 0}`, 8, "num_local_experts = 0"},
		{`{"model_type": "mixtral", "num_local_experts": null}`, 8, "num_local_experts is missing"},
		{`{"model_type": "mixtral", "num_experts_per_tok": 9}`, 8, "num_experts_per_tok = 9: must be at most num_local_experts = 8"},
		{`{"model_type": "llama", "num_key_value_heads": 5}`, 8, "num_key_value_heads = 5: must divide num_attention_heads = 32"},
		{`{"model_type": "llama", "hidden_size": 1e30}`, 8, "hidden_size = 1e30: must be a whole number below 2⁶³"},
		{`{"model_type": "llama", "num_hidden_layers": 2000000000}`, 8, "num_hidden_layers = 2000000000"},
		{`{"model_type": "llama", "hidden_size": 1073741824}`, 0, "hidden_size = 1073741824, max_position_embeddings = 2048: "},
		{`{"model_type": "llama", "tie_word_embeddings": "no"}`, 8, `tie_word_embeddings = "no": must be true or false`},
		{`{"model_type": "gpt2", "num_attention_heads": 7}`, 8, "num_attention_heads = 7: must divide n_embd = 768"},
	} {
		_, _, err := Parse([]byte(c.config), c.sequence)
		assert.ErrorContains(t, err, c.want, c.config)
		assert.NotContains(t, err.Error(), "config.json", "the caller names the file")
	}
}

// A type that is not read is told the nearest that is, which exists, and how it differs.
func TestRelatives(t *testing.T) {
	for _, r := range relatives() {
		require.Contains(t, models.ConfigTypes(), r.nearest)
		require.NotContains(t, models.ConfigTypes(), r.name)
		_, _, err := Parse(fmt.Appendf(nil, `{"model_type": %q}`, r.name), 8)
		require.EqualError(t, err, fmt.Sprintf("model_type %q is not supported; the nearest is %q, but %s has %s: "+
			"write model_type %q to predict it without that", r.name, r.nearest, r.name, r.differs, r.nearest))
	}
	for config, want := range map[string]string{
		`{"model_type": "t5"}`:                              "psim does not model an encoder and a decoder that attends to it",
		`{"model_type": "clip"}`:                            `distilbert: of encoders psim models those of text alone`,
		`{"model_type": "modernbert"}`:                      `psim does not model windows that hold later tokens (the nearest type is "bert")`,
		`{"model_type": "minimax_m3"}`:                      "psim does not model sparse attention to blocks of keys",
		`{"model_type": "qwen"}`:                            "; did you mean qwen2?",
		`{"model_type": "own"}`:                             `; if its blocks are those of "llama" (RMS norms before attention and MLP, rotary positions, an MLP with a gate), write model_type "llama"`,
		`{"model_type": "own", "num_experts": 8}`:           `write model_type "mixtral"`,
		`{"model_type": "jamba"}`:                           `psim does not model Mamba-1 layers (it models Mamba-2; the nearest type is "granitemoehybrid")`,
		`{"model_type": "falcon_mamba"}`:                    `psim does not model Mamba-1 layers (it models Mamba-2; the nearest type is "mamba2")`,
		`{"model_type": "llama", "hidden_size": NaN}`:       "hidden_size is NaN: give its value",
		`{"model_type": "llama", "head_dim": -Infinity}`:    "head_dim is -Infinity: give its value",
		`{"model_type": "gpt2", "n_layer": Infinity, "a":1`: "unexpected end",
		`{"model_type": Infinity}`:                          "model_type is Infinity: give its value",
	} {
		_, _, err := Parse([]byte(config), 8)
		require.ErrorContains(t, err, want, config)
	}
}

// TestEncoders reads dropout, positions after those of padding, and says what is priced in place of a head for classes.
func TestEncoders(t *testing.T) {
	for config, want := range map[string]models.Model{
		`{"model_type": "bert"}`: {Dropout: 0.1, SequenceLength: 512, Positions: 512, TokenTypes: 2},
		`{"model_type": "bert", "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0.0}`: {
			SequenceLength: 512, Positions: 512, TokenTypes: 2,
		},
		`{"model_type": "roberta", "max_position_embeddings": 514, "type_vocab_size": 1}`: {
			Dropout: 0.1, SequenceLength: 512, Positions: 514, TokenTypes: 1,
		},
		`{"model_type": "distilbert", "dropout": 0.2}`: {Dropout: 0.2, SequenceLength: 512, Positions: 512},
	} {
		m, _, err := Parse([]byte(config), 0)
		require.NoError(t, err)
		require.Equal(t, want, models.Model{
			Dropout: m.Dropout, SequenceLength: m.SequenceLength, Positions: m.Positions, TokenTypes: m.TokenTypes,
		}, config)
	}
	_, notes, err := Parse([]byte(`{"model_type": "bert", "architectures": ["BertForSequenceClassification"]}`), 8)
	require.NoError(t, err)
	require.Equal(t, []string{"architectures has BertForSequenceClassification: the head that predicts tokens is priced"}, notes)
}

// docs/models.md lists the types that are read.
func TestDocumentListsTypes(t *testing.T) {
	page, err := os.ReadFile("../../docs/models.md")
	require.NoError(t, err)
	for _, name := range models.ConfigTypes() {
		require.Contains(t, string(page), "`"+name+"`")
		_, _, err := Parse(fmt.Appendf(nil, `{"model_type": %q}`, name), 8)
		if err != nil {
			require.NotContains(t, err.Error(), "is not supported", name)
		}
	}
}

// Words of Python for numbers that JSON lacks are read where they have no effect.
func TestNonNumbers(t *testing.T) {
	m, notes, err := Parse([]byte(`{"model_type": "llama", "rope_theta": Infinity, "clip_\"NaN": NaN, "x": [-Infinity, "a NaN"],
		"num_hidden_layers": 2}`), 8)
	require.NoError(t, err)
	require.Equal(t, 2, m.Layers)
	require.Len(t, notes, 2)
	require.Contains(t, notes[0], `clip_"NaN = "NaN": psim does not know this key`)
	require.Contains(t, notes[1], `x = ["-Infinity", "a NaN"]: psim does not know this key`)
}

// What ParseConfig accepts can be built, and no total overflows.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4}`), 128)
	f.Add([]byte(`{"model_type": "llama", "num_key_value_heads": 4, "head_dim": 1073741823}`), 1<<20)
	f.Add([]byte(`{"model_type": "mistral", "vocab_size": 1073741824}`), 1<<30)
	f.Add([]byte(`{"model_type": "mixtral", "num_local_experts": 1000000000}`), 8)
	f.Add([]byte(`{"model_type": "gpt2", "n_positions": null, "n_inner": 9999999999}`), 0)
	f.Add([]byte(`{"model_type": "mixtral", "num_local_experts": null, "num_experts": 4, "N_LAYER": 3}`), 8)
	f.Add([]byte(`{"model_type": "gpt2", "hidden_size": 64, "num_attention_heads": 4, "quantization_config": null}`), 8)
	f.Add([]byte("\xff\xfe{"), -1)
	f.Add([]byte(`{"model_type": "llama", "rope_theta": Infinity, "x": [-Infinity, "NaN", NaN], "num_hidden_layers": 2}`), 8)
	for _, name := range []string{"deepseek_v3", "gpt_oss", "qwen3_moe", "glm4_moe"} {
		f.Add(fmt.Appendf(nil, `{"model_type": %q, "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
			"intermediate_size": 96, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1, "kv_lora_rank": 8,
			"qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_group": 1, "topk_group": 1}`, name), 64)
	}
	f.Add([]byte(`{"model_type": "qwen3_vl", "tie_word_embeddings": true, "text_config": {"vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 96}}`), 8)
	f.Add([]byte(`{"model_type": "gemma3", "text_config": {"hidden_size": 64, "num_hidden_layers": 4, "intermediate_size": 96, "layer_types": ["full_attention"]}}`), 64)
	f.Add([]byte(`{"model_type": "llama4", "text_config": {"hidden_size": 64, "num_hidden_layers": 4, "intermediate_size": 96, "no_rope_layers": [1, 0, 1, 0], "moe_layers": [1]}}`), 64)
	f.Add([]byte(`{"model_type": "nemotron_h", "vocab_size": 64, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16, "hybrid_override_pattern": "ME*-",
		"moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 64, "moe_latent_size": 8, "n_groups": 2, "mamba_num_heads": 4, "chunk_size": 1}`), 64)
	f.Add([]byte(`{"model_type": "qwen3_5_text", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 96}`), 100)
	f.Add([]byte(`{"model_type": "mimo_v2_flash", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "swa_num_key_value_heads": 4, "v_head_dim": 8, "hybrid_layer_pattern": [0, 1, 1, 0], "moe_layer_freq": [0, 1, 1, 1]}`), 64)
	f.Add([]byte(`{"model_type": "step3p5", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "share_expert_dim": 32, "moe_layers_enum": "2,3", "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"], "attention_other_setting": {"num_attention_heads": 6}}`), 64)
	f.Add([]byte(`{"model_type": "gemma4_text", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "hidden_size_per_layer_input": 0, "enable_moe_block": true, "attention_k_eq_v": true, "num_global_key_value_heads": 1, "global_head_dim": 1073741824}`), 64)
	f.Add([]byte(`{"model_type": "nemotron-nas", "vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "block_configs": [{"attention": {"no_op": true}, "ffn": {"ffn_mult": 1e3}}, {"attention": {"n_heads_in_group": 2}, "ffn": {"no_op": true}}]}`), 64)
	f.Add([]byte(`{"model_type": "bert", "type_vocab_size": 1073741824, "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1}`), 64)
	f.Fuzz(func(t *testing.T, data []byte, sequence int) {
		m, _, err := Parse(data, sequence)
		if err != nil {
			return
		}
		if m.Pattern == "" {
			m.Layers = min(m.Layers, 100)
		}
		m.DenseLayers, m.MoEEvery = min(m.DenseLayers, m.Layers-1), min(m.MoEEvery, 1)
		n, err := m.Network()
		require.NoError(t, err)
		assert.Positive(t, n.Parameters())
		for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
			assert.Positive(t, n.FLOPs(p))
			for _, l := range n.Layers {
				assert.GreaterOrEqual(t, l.Traffic(p, 1), int64(0))
			}
		}
	})
}

// networkOf makes the network of a model.
func networkOf(t require.TestingT, m models.Model) network.Network {
	n, err := m.Network()
	require.NoError(t, err)
	return n
}
