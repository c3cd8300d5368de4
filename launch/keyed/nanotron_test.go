package keyed_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"psim/launch"
	"psim/launch/keyed"
	"psim/launch/understood"
)

// nanotronKeys are those of a small run.
var nanotronKeys = map[string]any{
	"parallelism.dp": 4, "parallelism.pp": 1, "parallelism.tp": 2, "model.model_config.num_hidden_layers": 8,
	"model.model_config.hidden_size": 512, "model.model_config.intermediate_size": 1024, "model.model_config.num_attention_heads": 8,
	"model.model_config.vocab_size": 1001, "tokens.sequence_length": 2048, "tokens.micro_batch_size": 2,
	"tokens.batch_accumulation_per_replica": 4,
}

// nanotron reads these keys with some changed: "key=value key=value", with the values of YAML.
func nanotron(t testing.TB, changes string) (*launch.Import, error) {
	keys := maps.Clone(nanotronKeys)
	for word := range strings.FieldsSeq(changes) {
		key, text, _ := strings.Cut(word, "=")
		var value any
		require.NoError(t, yaml.Unmarshal([]byte(text), &value))
		keys[key] = value
	}
	root := map[string]any{}
	for key, value := range keys {
		table, parts := root, strings.Split(key, ".")
		for _, part := range parts[:len(parts)-1] {
			if table[part] == nil {
				table[part] = map[string]any{}
			}
			table = table[part].(map[string]any)
		}
		table[parts[len(parts)-1]] = value
	}
	data, err := yaml.Marshal(root)
	require.NoError(t, err)
	return launch.Read([]launch.Input{{Label: "n.yaml", Data: data}}, launch.Options{})
}

const c, m = "model.model_config.", "model.model_config.moe_config."

// nanotronCases are keys of nanotron with the key of psim's that each decides.
var nanotronCases = []struct {
	changes, key string
	want         any
}{
	{"", "model.vocab", 1002}, {"model.make_vocab_size_divisible_by=64", "model.vocab", 1024}, {"", "model.sequence_length", 2048},
	{"", "batch.global", 32}, {"", "batch.micro", 2}, {"", "schedule.name", "ddp"}, {"", "train.recompute", "none"},
	{"parallelism.pp=2", "schedule.name", "gpipe"}, {"parallelism.pp=2 parallelism.pp_engine=1f1b", "schedule.name", "1f1b"},
	{"", "parallel.sequence", false}, {"parallelism.tp_mode=REDUCE_SCATTER", "parallel.sequence", true},
	{"parallelism.tp_linear_async_communication=true", "parallel.tensor_overlap", true},
	{"parallelism.recompute_layer=true", "train.recompute", "full"}, {"parallelism.expert_parallel_size=1", "parallel.expert", nil},
	{"parallelism.context_parallel_size=2 " + c + "_attn_implementation=ring", "parallel.context_method", "ring"},
	{"parallelism.context_parallel_size=2 " + c + "_attn_implementation=llama3_ring_attention", "parallel.context_method", "all-gather"},
	{"model.dtype=float32", "train.precision", "fp32"}, {"", "train.master_weights", "none"},
	{"optimizer.accumulate_grad_in_fp32=true", "train.gradients", "fp32"}, {"optimizer.zero_stage=1", "parallel.zero", 1},
	{"optimizer.zero_stage=1 optimizer.accumulate_grad_in_fp32=true", "parallel.overlap", nil}, {"", "parallel.overlap", true},
	{"model.ddp_bucket_cap_mb=50", "parallel.bucket", "50MiB"}, {"optimizer.optimizer_factory.name=sgd", "train.optimizer", "sgd"},
	{"optimizer.clip_grad=1.0", "train.clip", true}, {"optimizer.clip_grad=0.0", "train.clip", true}, {"optimizer.clip_grad=null", "train.clip", false},
	{c + "num_key_value_heads=2", "model.kv_heads", 2},
	{c + "tie_word_embeddings=true", "model.tied", true}, {c + "attention_bias=true", "model.qkv_bias", nil},
	{c + "is_qwen2_config=true " + c + "attention_bias=true", "model.qkv_bias", true}, {c + "sliding_window_size=128", "model.window", 128},
	{c + "hidden_act=gelu", "model.activation", "gelu"}, {c + "is_starcoder2_config=false " + c + "is_mamba_config=false", "model.family", "llama"},
	{m + "num_experts=8", "model.family", "mixtral"}, {m + "num_experts=8 " + m + "top_k=1", "model.experts_per_token", 1},
	{m + "num_experts=8 " + m + "moe_intermediate_size=64", "model.expert_hidden", 64},
	{m + "num_experts=8 " + m + "moe_intermediate_size=64 " + m + "enable_shared_expert=true " + m + "shared_expert_intermediate_size=128", "model.shared_experts", 2},
	{m + "num_experts=8 " + m + "layers=[2,3,4,5,6,7]", "model.dense_layers", 2}, {m + "num_experts=8 " + m + "layers=[-1]", "model.dense_layers", nil},
}

// TestNanotron: every key of nanotron that the table calls mapped decides a key.
func TestNanotron(t *testing.T) {
	seen := strings.Join(slices.Collect(maps.Keys(nanotronKeys)), " ") + "parallelism.tp_recompute_allgather"
	for _, c := range nanotronCases {
		i, err := nanotron(t, c.changes)
		require.NoError(t, err, c.changes)
		require.Equal(t, c.want, valueOf(i, c.key), "%s: %s", c.changes, c.key)
		require.Zero(t, i.Unknown)
		seen += " " + c.changes
	}
	for _, key := range mappedKeys(t, "nanotron.csv") {
		require.Contains(t, seen, key, "is called mapped, and no case shows it")
	}
	i, err := nanotron(t, "parallelism.mine=3 general.seed=4 parallelism.tp_recompute_allgather=false "+c+`z_loss_enabled=true data_stages=[{"sequence_length":4096}]`)
	require.NoError(t, err)
	require.Equal(t, 1, i.Unknown)
	require.Contains(t, fmt.Sprint(i.Ignored), "z_loss_enabled = true")
	require.Contains(t, fmt.Sprint(i.Ignored), "data_stages: sequence_length = 4096")
	require.Contains(t, fmt.Sprint(i.Ignored), "tp_recompute_allgather = false what is gathered is kept")
	for changes, want := range map[string]string{
		c + "num_hidden_layers=null": "num_hidden_layers = <nil>: is missing", "tokens.micro_batch_size=x": "must be a whole number",
		c + "is_starcoder2_config=true": "psim knows LlamaConfig and Qwen2Config", c + "hidden_act=best": "psim knows silu, gelu and relu",
		m + "num_experts=8 " + m + "layers=[0,2]":                                                "psim has experts after the first layers",
		m + "num_experts=8 " + m + "moe_intermediate_size=63 " + m + "enable_shared_expert=true": "as wide as the others (63)",
		"parallelism.tp=1000000000000 parallelism.dp=1000000000000":                              "devices", "parallelism.expert_parallel_size=2": "write 1",
		"parallelism.tp_mode=best": "must be ALL_REDUCE or REDUCE_SCATTER", "parallelism.context_parallel_size=2": "a sequence in parts needs ring",
		"parallelism.pp_engine=zb": "must be 1f1b or afab", "tokens.micro_batch_size=1000000000000": "a step has too many samples",
		"model.dtype=float8": "psim knows bfloat16", "optimizer.zero_stage=2": "must be 0 or 1", "optimizer.clip_grad=x": "must be a number, or null", "optimizer.optimizer_factory.name=x": "psim knows adamW and sgd",
	} {
		_, err := nanotron(t, changes)
		require.ErrorContains(t, err, want, changes)
		require.True(t, strings.HasPrefix(err.Error(), "n.yaml: "), err)
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestNanotronExamples reads examples of nanotron's, if a folder with them is named: the YAML of Llama and Qwen.
func TestNanotronExamples(t *testing.T) {
	folder := os.Getenv("PSIM_NANOTRON")
	if folder == "" {
		t.Skip("PSIM_NANOTRON names no folder with examples of nanotron")
	}
	list, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range list {
		data, err := os.ReadFile(folder + "/" + e.Name())
		require.NoError(t, err)
		i, err := launch.Read([]launch.Input{{Label: e.Name(), Data: data}}, launch.Options{})
		if err != nil {
			t.Log(err)
			continue
		}
		t.Logf("%s: %d keys, %d unknown: %v", e.Name(), len(i.Mapped), i.Unknown, i.Ignored)
	}
}

// TestBroken: a file that is called YAML, JSON or TOML and is none says where it breaks.
func TestBroken(t *testing.T) {
	for name, c := range map[string][2]string{
		"a.yaml": {"a:\n  b: 1\n : x [", "a.yaml: is not YAML: line 2: "},
		"a.yml":  {"parallelism\n  dp: 1\n", "a.yml: is not YAML: "},
		"a.json": {`{"a": }`, "a.json: is not JSON: "},
		"a.toml": {"a = ", "a.toml: is not TOML: line 1"},
		"a.sh":   {"if (", ""}, "b.yaml": {"a: 1", ""}, "b.json": {`{"a": 1}`, ""}, "b.toml": {"a = 1", ""},
	} {
		err := keyed.Broken(understood.Input{Label: name, Data: []byte(c[0])})
		if c[1] == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c[1], name)
		}
	}
}
