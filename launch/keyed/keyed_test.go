package keyed_test

import (
	"encoding/csv"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/launch"
)

// titanKeys are values of torchtitan's keys with the key of psim's that each decides.
var titanKeys = []struct {
	toml, key string
	want      any
}{
	{"training.seq_len = 4096", "model.sequence_length", 4096},
	{"training.local_batch_size = 2", "batch.micro", 2},
	{"training.global_batch_size = 64", "batch.global", 64},
	{"training.max_norm = 0.0", "train.clip", true},
	{"training.compile = true", "model.kernels", nil},
	{"training.mixed_precision_param = \"float32\"", "train.precision", "fp32"},
	{"training.mixed_precision_reduce = \"float32\"", "train.gradients", "fp32"},
	{"compile.enable = true", "model.kernels", nil},
	{"compile.enable = false", "model.kernels", "eager"},
	{"model.name = \"deepseek_v3\"\nmodel.flavor = \"671B\"", "model.preset", "deepseek-v3"},
	{"model.flavor = \"70B_flex\"", "model.preset", "llama3-70b"},
	{"model.converters = [\"float8\"]", "train.precision", "fp8"},
	{"model.converters = [\"quantize.linear.mx\"]", "train.precision", "mxfp8"},
	{"model.converters = [\"float8\"]\nfloat8.enable_fsdp_float8_all_gather = true", "train.weights", "8-bit"},
	{"model.converters = [\"quantize.linear.float8\"]\nquantize.linear.float8.enable_fsdp_float8_all_gather = true", "train.weights", "8-bit"},
	{"parallelism.expert_parallel_degree = 2\nparallelism.expert_parallel_comm_backend = \"deepep\"", "parallel.dispatcher", "deepep"},
	{"compile.enable = true\ncompile.components = [\"loss\"]", "model.kernels", "eager"},
	{"parallelism.pipeline_parallel_degree = 2\nparallelism.pipeline_parallel_first_stage_less_layers = 3", "schedule.partition", []int{16, 19}},
	{"parallelism.pipeline_parallel_degree = 2\nparallelism.pipeline_parallel_last_stage_less_layers = 0", "schedule.partition", []int{17, 18}},
	{"parallelism.pipeline_parallel_degree = 2\nparallelism.pipeline_parallel_schedule = \"Interleaved1F1B\"\n" +
		"parallelism.pipeline_parallel_layers_per_stage = 6", "schedule.virtual_stages", 3},
	{"optimizer.name = \"Adam\"", "train.optimizer", "adam"},
	{"optimizer.early_step_in_backward = true", "train.update_in", "backward"},
	{"activation_checkpoint.mode = \"full\"", "train.recompute", "full"},
	{"activation_checkpoint.mode = \"none\"", "train.recompute", "none"},
	{"activation_checkpoint.selective_ac_option = \"op\"", "train.recompute", "selective"},
	{"parallelism.tensor_parallel_degree = 4", "parallel.tensor", 4},
	{"parallelism.tensor_parallel_degree = 4\nparallelism.enable_async_tensor_parallel = true", "parallel.tensor_overlap", true},
	{"parallelism.context_parallel_degree = 2", "parallel.context_method", "all-gather"},
	{"parallelism.context_parallel_degree = 2\nparallelism.context_parallel_rotate_method = \"alltoall\"", "parallel.context_method", "ring"},
	{"parallelism.data_parallel_shard_degree = 4", "parallel.data", 4},
	{"parallelism.data_parallel_shard_degree = 4", "parallel.zero", 3},
	{"parallelism.data_parallel_shard_degree = 4\nparallelism.fsdp_reshard_after_forward = \"never\"", "parallel.zero", 2},
	{"parallelism.data_parallel_shard_degree = 1\nparallelism.data_parallel_replicate_degree = 4", "parallel.zero", 0},
	{"parallelism.data_parallel_shard_degree = 2\nparallelism.data_parallel_replicate_degree = 4", "parallel.zero_group", 2},
	{"parallelism.data_parallel_shard_degree = 4\nparallelism.expert_parallel_degree = 2\nparallelism.expert_tensor_parallel_degree = 2", "parallel.expert_tensor", 2},
	{"parallelism.pipeline_parallel_degree = 4", "schedule.name", "1f1b"},
	{"parallelism.pipeline_parallel_degree = 4\nparallelism.data_parallel_shard_degree = 4", "parallel.zero", 2},
	{"parallelism.pipeline_parallel_degree = 4\nparallelism.data_parallel_shard_degree = 4", "parallel.sum_once", true},
	{"parallelism.pipeline_parallel_degree = 4\nparallelism.data_parallel_shard_degree = 4\n" +
		"parallelism.fsdp_reshard_after_forward = \"always\"", "parallel.zero", 3},
	{"parallelism.pipeline_parallel_degree = 4\nparallelism.pipeline_parallel_schedule = \"ZBVZeroBubble\"", "schedule.name", "zbv"},
	{"parallelism.pipeline_parallel_degree = 4\nparallelism.pipeline_parallel_schedule = \"Interleaved1F1B\"", "schedule.virtual_stages", 2},
	{"parallelism.pipeline_parallel_degree = 4\nparallelism.pipeline_parallel_microbatch_size = 2", "batch.micro", 2},
}

// aside are keys that are read, and for which psim has no key.
var aside = []string{
	"training.dtype = \"bfloat16\"", "optimizer.implementation = \"foreach\"", "activation_checkpoint.selective_ac_option = \"2\"",
	"model.converters = [\"float8\"]\nfloat8.recipe_name = \"rowwise\"",
	"model.converters = [\"float8\"]\nquantize.linear.float8.recipe_name = \"rowwise\"",
	"parallelism.data_parallel_shard_degree = 2\nparallelism.fsdp_reshard_after_forward = \"never\"\nparallelism.data_parallel_replicate_degree = 4",
}

// readTitan reads keys of torchtitan, for the 8B model of Llama 3 unless they say another.
func readTitan(keys string) (*launch.Import, error) {
	text := keys + "\n"
	for _, line := range []string{`model.name = "llama3"`, `model.flavor = "8B"`} {
		if key, _, _ := strings.Cut(line, " ="); !strings.Contains(keys, key+" ") {
			text += line + "\n"
		}
	}
	sections := map[string]string{"job": "", "training": "", "model": ""}
	for line := range strings.Lines(text) {
		section, key, _ := strings.Cut(line, ".")
		if key != "" {
			sections[section] += key
		}
	}
	text = ""
	for section, lines := range sections {
		text += "[" + section + "]\n" + lines
	}
	return launch.Read([]launch.Input{{Label: "t.toml", Data: []byte(text)}}, launch.Options{})
}

// mappedKeys are the keys that a table calls mapped.
func mappedKeys(t *testing.T, name string) (keys []string) {
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(string(data))).ReadAll()
	require.NoError(t, err)
	for _, row := range rows[1:] {
		require.NotEmpty(t, row[1], row[0])
		if row[1] == "mapped" {
			keys = append(keys, row[0])
		}
	}
	return keys
}

// TestTitan: every key of torchtitan that the table calls mapped decides a key, or is named.
func TestTitan(t *testing.T) {
	seen := ""
	for _, c := range titanKeys {
		i, err := readTitan(c.toml)
		require.NoError(t, err, c.toml)
		section, name, _ := strings.Cut(c.key, ".")
		require.Equal(t, c.want, i.Config[section].(map[string]any)[name], c.toml)
		require.Zero(t, i.Unknown)
		seen += "\n" + c.toml
	}
	for _, keys := range aside {
		i, err := readTitan(keys)
		require.NoError(t, err, keys)
		last := keys[strings.LastIndex(keys, "\n")+1:]
		name, _, _ := strings.Cut(last, " ")
		require.Contains(t, fmt.Sprint(i.Ignored), name+" = ")
		seen += "\n" + keys
	}
	for _, key := range mappedKeys(t, "torchtitan.csv") {
		require.Contains(t, seen, "\n"+key+" ", "is called mapped, and no case shows it")
	}
	i, err := readTitan("training.mine = 3\nmetrics.log_freq = 1\nnew_section.key = 1\ntraining.deterministic = true")
	require.NoError(t, err)
	require.Equal(t, 2, i.Unknown)
	require.Equal(t, 1, i.Idle)
	require.Contains(t, fmt.Sprint(i.Ignored), "training.deterministic = true")
	require.Len(t, i.Missing, 1, "--devices")
	for _, keys := range []string{
		"model.flavor = \"9B\"", "training.seq_len = \"x\"", "training.seq_len = 1.5", "training.seq_len = -1", "parallelism.tensor_parallel_degree = 0",
		"parallelism.tensor_parallel_degree = 9223372036854775807", "parallelism.data_parallel_shard_degree = 0",
		"parallelism.tensor_parallel_degree = 1099511627775\nparallelism.data_parallel_shard_degree = 1099511627775",
		"parallelism.pipeline_parallel_degree = 2\nparallelism.pipeline_parallel_schedule = \"best\"",
		"parallelism.pipeline_parallel_degree = 2\nparallelism.pipeline_parallel_layers_per_stage = 4",
		"parallelism.pipeline_parallel_degree = 40", "parallelism.pipeline_parallel_degree = 2\nparallelism.pipeline_parallel_first_stage_less_layers = -1",
		"activation_checkpoint.mode = \"some\"", "optimizer.name = \"Shampoo\"", "training.global_batch_size = 7", "job.x = ",
	} {
		_, err := readTitan(keys)
		require.Error(t, err, keys)
		require.NotContains(t, err.Error(), "\n")
		require.True(t, strings.HasPrefix(err.Error(), "t.toml: "), err)
	}
}

// deepspeed reads a configuration of DeepSpeed for a network.
func deepspeed(text string, devices int) (*launch.Import, error) {
	return launch.Read([]launch.Input{
		{Label: "config.json", Data: []byte(`{"model_type": "llama"}`)}, {Label: "ds.json", Data: []byte(text)},
	}, launch.Options{Devices: devices})
}

// TestDeepSpeed: every key of DeepSpeed that the table calls mapped decides a key.
func TestDeepSpeed(t *testing.T) {
	seen := ""
	for _, c := range []struct {
		json, key string
		want      any
	}{
		{`"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2`, "batch.global", 64},
		{`"train_batch_size": 64, "gradient_accumulation_steps": 4`, "batch.micro", 2},
		{`"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4`, "batch.global", 64},
		{`"zero_optimization": {"stage": 3}`, "parallel.zero", 3},
		{`"zero_optimization": {"stage": 3}`, "parallel.overlap", true},
		{`"zero_optimization": {"stage": 2, "overlap_comm": false}`, "parallel.overlap", false},
		{`"zero_optimization": {"stage": 2, "reduce_bucket_size": 2e8}`, "parallel.bucket", "200000000 gradients"},
		{`"zero_optimization": {"stage": 1, "reduce_scatter": false}`, "parallel.reduce_scatter", false},
		{`"bf16": {"enabled": true}`, "train.precision", "bf16"},
		{`"bfloat16": {"enabled": true}`, "train.precision", "bf16"},
		{`"fp16": {"enabled": true}`, "train.precision", "fp16"},
		{`"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}`, "train.master_weights", "none"},
		{`"bf16": {"enabled": true, "bf16_optimizer_states": true}`, "train.moments", "bf16"},
		{`"tensor_parallel": {"autotp_size": 0}`, "parallel.data", 8},
		{`"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}`, "train.gradients", "fp32"},
		{`"optimizer": {"type": "Lion"}`, "train.optimizer", "lion"},
		{`"gradient_clipping": 1.0`, "train.clip", true},
		{`"tensor_parallel": {"autotp_size": 2}`, "parallel.data", 4},
	} {
		rest := `"zero_optimization": {}, `
		if strings.Contains(c.json, "zero_optimization") {
			rest = ""
		}
		i, err := deepspeed("{"+rest+c.json+"}", 8)
		require.NoError(t, err, c.json)
		section, name, _ := strings.Cut(c.key, ".")
		require.Equal(t, c.want, i.Config[section].(map[string]any)[name], c.json)
		require.Zero(t, i.Unknown)
		require.Equal(t, "config.json", i.Config["model"].(map[string]any)["file"])
		seen += c.json
	}
	_, err := deepspeed(`{"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1, "x": [{"stage": 2}], "stage": 3}}`, 8)
	require.ErrorContains(t, err, "zero_optimization.stage stands there twice, which DeepSpeed refuses; remove one of them")
	for _, key := range mappedKeys(t, "deepspeed.csv") {
		for part := range strings.SplitSeq(key, ".") {
			require.Contains(t, seen, `"`+part+`"`, "is called mapped, and no case shows it")
		}
	}
	i, err := deepspeed(`{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
		"zero_optimisation": {"stage": 3}, "zero_optimization": {"offload_optimizer": {"device": "cpu"}}, "steps_per_print": 9}`, 0)
	require.NoError(t, err)
	require.Equal(t, 8, i.Config["parallel"].(map[string]any)["data"], "64 / (2 × 4)")
	require.Equal(t, 1, i.Unknown, "which DeepSpeed ignores in silence")
	require.Contains(t, fmt.Sprint(i.Ignored), "offload_optimizer.device = \"cpu\" not priced: states and the update are the host's; ")
	for _, text := range []string{
		`{"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2}`, `{"train_batch_size": 0}`, `{"train_batch_size": "x"}`,
		`{"train_batch_size": 8, "bf16": true}`, `{"train_batch_size": 8, "bf16": {"enabled": "true"}}`,
		`{"train_batch_size": 8, "zero_optimization": [3]}`, `{"train_batch_size": "64"}`,
		`{"train_batch_size": 8, "bf16": {"enabled": true}, "fp16": {"enabled": true}}`, `{"zero_optimization": {"stage": 4}}`,
		`{"zero_optimization": {"stage": 1e300}}`, `{"train_batch_size": 8, "optimizer": {"type": "x"}}`,
		`{"train_micro_batch_size_per_gpu": 1e12, "gradient_accumulation_steps": 1e12, "train_batch_size": 1e12}`,
		`{"zero_optimization": {}, "tensor_parallel": {"autotp_size": 3}}`,
	} {
		_, err := deepspeed(text, 8)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "\n")
		require.True(t, strings.HasPrefix(err.Error(), "ds.json: "), err)
	}
	_, err = launch.Read([]launch.Input{{Label: "ds.json", Data: []byte(`{"train_batch_size": 8}`)}}, launch.Options{})
	require.ErrorContains(t, err, "name the network's config.json as well")
	_, err = launch.Read([]launch.Input{{Label: "config.json", Data: []byte(`{"model_type": "llama"}`)}}, launch.Options{})
	require.ErrorContains(t, err, "is a network, which psim run reads")
}
