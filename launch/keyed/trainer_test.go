package keyed_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/launch"
)

// trainer reads files of the Trainer for a network: TrainingArguments, and accelerate's file where it has keys.
func trainer(arguments, accelerate string, devices int, more ...launch.Input) (*launch.Import, error) {
	files := append([]launch.Input{{Label: "config.json", Data: []byte(`{"model_type": "llama", "hidden_size": 64}`)}}, more...)
	if arguments != "" {
		files = append(files, launch.Input{Label: "args.yaml", Data: []byte(arguments + "\n")})
	}
	if accelerate != "" {
		files = append(files, launch.Input{Label: "accelerate.yaml", Data: []byte(accelerate + "\n")})
	}
	return launch.Read(files, launch.Options{Devices: devices})
}

// valueOf returns what an import gives a key.
func valueOf(i *launch.Import, key string) any {
	var at any = i.Config
	for part := range strings.SplitSeq(key, ".") {
		table, _ := at.(map[string]any)
		at = table[part]
	}
	return at
}

const full, sharded = "\nfsdp: true\nfsdp_config:\n  ", "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  "

// trainerCases are keys of TrainingArguments and of accelerate's file, with the key of psim's that each decides.
var trainerCases = []struct {
	arguments, accelerate, key string
	want                       any
}{
	{"per_device_train_batch_size: 4", "", "batch.micro", 4},
	{"per_device_train_batch_size: 4\ngradient_accumulation_steps: 3", "", "batch.global", 96},
	{"output_dir: x", "", "batch.micro", 8},
	{"output_dir: x\nblock_size: 512", "", "model.sequence_length", 512},
	{"output_dir: x\nper_gpu_train_batch_size: 2", "", "batch.micro", 2},
	{"output_dir: x\nmax_grad_norm: 0", "", "train.clip", false},
	{"output_dir: x", "", "train.clip", true},
	{"output_dir: x\noptim: adamw_bnb_8bit", "", "train.optimizer", "adamw-8bit"},
	{"output_dir: x\noptim: adamw_torch", "", "train.update_kernels", "foreach"},
	{"output_dir: x\noptim: adamw_torch_fused", "", "train.optimizer", "adamw"},
	{"output_dir: x\nadafactor: true", "", "train.optimizer", "adafactor"},
	{"output_dir: x\nbf16: true", "", "train.precision", "bf16"},
	{"output_dir: x\nbf16: true", "", "train.gradients", "fp32"},
	{"output_dir: x\nfp16: true", "", "train.precision", "fp16"},
	{"output_dir: x\nfp16: true", "", "model.fp32_logits", true},
	{"output_dir: x\nuse_peft: true\nlora_r: 8\nfsdp: full_shard", "", "train.adapter.rank", 8},
	{"output_dir: x\nbf16: true\nuse_peft: true\nlora_r: 8", sharded + "fsdp_version: 2", "train.adapter.rank", 8},
	{"output_dir: x\nbf16: true\nuse_peft: true", sharded + "fsdp_version: 2", "memory.fp32_shards", false},
	{"output_dir: x\nuse_peft: true", "distributed_type: DEEPSPEED", "train.adapter.kind", "lora"},
	{"output_dir: x\nbf16: true", "distributed_type: DEEPSPEED", "train.precision", "bf16"},
	{"", "distributed_type: DEEPSPEED\nmixed_precision: fp16", "train.precision", "fp16"},
	{"output_dir: x\nfsdp: shard_grad_op auto_wrap offload", "", "parallel.zero", 2},
	{"gradient_checkpointing: true", "", "train.recompute", "full"},
	{"output_dir: x\nactivation_checkpointing: true", "", "train.stop_early", true},
	{"gradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  use_reentrant: true", "", "train.stop_early", false},
	{"output_dir: x\nactivation_checkpointing: true\nactivation_checkpointing_kwargs:\n  use_reentrant: true", "", "train.stop_early", false},
	{"gradient_checkpointing: false", "", "train.recompute", "none"},
	{"output_dir: x\ntorch_compile: true", "", "model.kernels", "compiled"},
	{"output_dir: x\ntorch_compile_backend: inductor", "", "model.kernels", "compiled"},
	{"output_dir: x\ntorch_compile_mode: default", "", "model.kernels", "compiled"},
	{"output_dir: x\nuse_liger_kernel: true\nbf16: true", "", "model.loss", "fused"},
	{"output_dir: x\nddp_bucket_cap_mb: 50", "", "parallel.bucket", "50MiB"},
	{"output_dir: x\nddp_backend: gloo", "", "parallel.collectives", "gloo"},
	{"output_dir: x\nfsdp: full_shard auto_wrap", "", "parallel.zero", 3},
	{"output_dir: x\nfsdp: [shard_grad_op, auto_wrap]", "", "parallel.zero", 2},
	{"output_dir: x\nfsdp: true", "", "parallel.gather", "copied"},
	{"output_dir: x\nbf16: true" + full + "version: 1", "", "parallel.gather", nil},
	{"output_dir: x\nbf16: true" + full + "fsdp_version: 1", "", "memory.fp32_shards", true},
	{"output_dir: x" + full + "reshard_after_forward: false", "", "parallel.zero", 2},
	{"output_dir: x" + full + "fsdp_reshard_after_forward: false", "", "parallel.overlap_gather", true},
	{"output_dir: x" + full + "version: 1\n  sharding_strategy: NO_SHARD", "", "parallel.zero", 0},
	{"output_dir: x" + full + "version: 1\n  fsdp_sharding_strategy: 2", "", "parallel.zero", 2},
	{"output_dir: x" + full + "activation_checkpointing: true", "", "train.recompute", "full"},
	{"output_dir: x" + full + "fsdp_activation_checkpointing: true", "", "train.stop_early", true},
	{"output_dir: x\ngradient_accumulation_steps: 2\nfsdp: true", "", "parallel.sum_once", true},
	{"output_dir: x\nparallelism_config:\n  tp_size: 2", "", "parallel.tensor", 2},
	{"output_dir: x\nparallelism_config:\n  cp_size: 2", "", "parallel.context_method", "all-gather"},
	{"output_dir: x\nparallelism_config:\n  sp_size: 4", "", "parallel.context_method", "ulysses"},
	{"output_dir: x\nparallelism_config:\n  sp_size: 4\n  dp_replicate_size: 1\n  dp_shard_size: 2", "", "parallel.data", 2},
	{"output_dir: x\nmax_length: 4096\npacking: true", "", "model.sequence_length", 4096},
	{"output_dir: x\nmax_seq_length: 512", "", "model.sequence_length", 512},
	{"output_dir: x\npacking: true", "", "train.precision", "bf16"},
	{"output_dir: x\npacking: true", "", "train.recompute", "full"},
	{"output_dir: x\nattn_implementation: eager", "", "model.attention", "unfused"},
	{"output_dir: x\nuse_peft: true\nlora_r: 8", "", "train.adapter.rank", 8},
	{"output_dir: x\nuse_peft: true\nlora_dropout: 0.1\nload_in_8bit: false", "", "train.adapter.dropout", 0.1},
	{"output_dir: x\nuse_peft: true\nlora_target_modules: all-linear", "", "train.adapter.targets", []string{"all-linear"}},
	{"output_dir: x\nuse_peft: true\nlora_target_modules: [q_proj]", "", "train.adapter.targets", []string{"q_proj"}},
	{"output_dir: x\nuse_peft: true\nload_in_4bit: true", "", "train.adapter.kind", "qlora"},
	{"output_dir: x\nuse_peft: true\nload_in_4bit: true\nuse_bnb_nested_quant: true", "", "train.adapter.double_quant", true},

	{"", "distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: fp16", "train.precision", "fp16"},
	{"", "distributed_type: 'NO'", "parallel.data", 1},
	{"", "distributed_type: MULTI_GPU\nfp16: true", "train.precision", "fp16"},
	{"", sharded + "fsdp_version: 2", "parallel.gather", "copied"},
	{"", sharded + "fsdp_sharding_strategy: HYBRID_SHARD_ZERO2", "parallel.zero", 2},
	{"", sharded + "fsdp_reshard_after_forward: false", "parallel.zero", 2},
	{"", sharded + "fsdp_activation_checkpointing: true", "train.recompute", "full"},
	{"", "distributed_type: MULTI_GPU\nmixed_precision: fp8\nfp8_config:\n  backend: AO", "train.fp8_recipe", "current"},
	{"", "distributed_type: MULTI_GPU\ndynamo_config:\n  dynamo_backend: INDUCTOR", "model.kernels", "compiled"},
	{"", "distributed_type: MULTI_GPU\ndynamo_backend: INDUCTOR", "model.kernels", "compiled"},
	{"", "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 3", "parallel.zero", 3},
	{"", "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  gradient_clipping: 1.0", "train.clip", true},
	{"output_dir: x", "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 2", "batch.global", 64},
	{"", "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  gradient_accumulation_steps: 4", "batch.global", 32},
	{"", "distributed_type: FSDP\nnum_processes: 8\nparallelism_config:\n  parallelism_config_tp_size: 2", "parallel.tensor", 2},
	{"", "distributed_type: FSDP\nparallelism_config:\n  parallelism_config_cp_size: 2\n  " +
		"parallelism_config_cp_comm_strategy: alltoall", "parallel.context_method", "ring"},
	{"", "distributed_type: FSDP\nparallelism_config:\n  parallelism_config_sp_size: 2", "parallel.context", 2},
	{"", "distributed_type: FSDP\nparallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  " +
		"parallelism_config_dp_shard_size: 4", "parallel.zero_group", 4},
	{"", "distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD", "parallel.zero_group", 8},
	{"", "distributed_type: FSDP\nparallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  " +
		"parallelism_config_dp_shard_size: 4", "parallel.data", 8},
	{"output_dir: x\nbf16: true\ndeepspeed:\n  zero_optimization:\n    stage: 3\n  bf16:\n    enabled: auto", "", "parallel.zero", 3},
	{"output_dir: x\noptim: lion_32bit\ndeepspeed:\n  train_batch_size: auto\n  zero_optimization:\n    stage: 1", "", "train.optimizer", "lion"},
}

// trainerAside are keys that are read, and for which psim has no key.
var trainerAside = []struct{ arguments, accelerate, name string }{
	{"output_dir: x" + full + "auto_wrap_policy: NO_WRAP", "", "fsdp_config.auto_wrap_policy"},
	{"output_dir: x" + full + "fsdp_auto_wrap_policy: NO_WRAP", "", "fsdp_config.fsdp_auto_wrap_policy"},
	{"", sharded + "fsdp_auto_wrap_policy: SIZE_BASED_WRAP", "fsdp_config.fsdp_auto_wrap_policy"},
	{"", sharded + "fsdp_offload_params: true", "fsdp_config.fsdp_offload_params"},
	{"output_dir: x\nauto_find_batch_size: true", "", "auto_find_batch_size"},
}

// TestTrainer: every key that the tables call mapped decides a key, or is named.
func TestTrainer(t *testing.T) {
	seen := map[bool]string{}
	for _, c := range trainerCases {
		devices := 8
		if strings.Contains(c.accelerate, "num_processes") || strings.Contains(c.accelerate, "NO") {
			devices = 0
		}
		i, err := trainer(c.arguments, c.accelerate, devices)
		name := c.arguments + "|" + c.accelerate
		require.NoError(t, err, name)
		require.Equal(t, c.want, valueOf(i, c.key), "%s: %s", name, c.key)
		require.Zero(t, i.Unknown, "%s: %v", name, i.Ignored)
		seen[false] += "\n" + c.arguments
		seen[true] += "\n" + c.accelerate
	}
	for _, c := range trainerAside {
		i, err := trainer(c.arguments, c.accelerate, 0)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(i.Ignored), c.name+" = ")
		seen[false] += "\n" + c.arguments
		seen[true] += "\n" + c.accelerate
	}
	seen[true] += "deepspeed_config_file:" // TestTrainerFiles
	for table, accelerate := range map[string]bool{"trainer.csv": false, "accelerate.csv": true} {
		for _, key := range mappedKeys(t, table) {
			for part := range strings.SplitSeq(key, ".") {
				require.Contains(t, seen[accelerate], part+":", "%s is called mapped in %s, and no case shows it", key, table)
			}
		}
	}
	i, err := trainer("output_dir: x\nmine: 3\nneftune_noise_alpha: 5\nseed: 1", "", 8)
	require.NoError(t, err)
	require.Equal(t, 1, i.Unknown)
	require.Equal(t, 2, i.Idle)
	require.Contains(t, fmt.Sprint(i.Ignored), "neftune_noise_alpha = 5")
	require.Equal(t, "config.json", valueOf(i, "model.file"))
	i, err = trainer("", "distributed_type: MULTI_GPU\nnum_processes: 8\nnum_machines: 2", 0)
	require.NoError(t, err)
	require.Equal(t, 4, i.EachNode)
}

// TestTrainerFiles: a file that a key names is read, and "auto" takes the Trainer's arguments.
func TestTrainerFiles(t *testing.T) {
	ds := launch.Input{Label: "conf/ds.json", Data: []byte(`{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
		"gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
		"zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}}`)}
	const arguments = "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true\n"
	for _, c := range [][2]string{
		{arguments + "deepspeed: ds.json", ""}, {arguments, ""},
		{arguments, "distributed_type: DEEPSPEED\nnum_processes: 16\ndeepspeed_config:\n  deepspeed_config_file: /there/ds.json"},
	} {
		devices := 16
		if c[1] != "" {
			devices = 0
		}
		i, err := trainer(c[0], c[1], devices, ds)
		require.NoError(t, err)
		for key, want := range map[string]any{
			"batch.global": 128, "batch.micro": 2, "parallel.data": 16, "parallel.zero": 2, "train.precision": "bf16", "train.clip": true,
			"train.optimizer": "adamw", "train.recompute": "none", "model.kernels": "eager", "parallel.bucket": "4096 gradients",
		} {
			require.Equal(t, want, valueOf(i, key), key)
		}
		require.Zero(t, i.Unknown)
	}
	other := ds
	other.Data = []byte(strings.Replace(string(ds.Data), `"train_micro_batch_size_per_gpu": "auto"`, `"train_micro_batch_size_per_gpu": 1`, 1))
	_, err := trainer(arguments, "", 16, other)
	require.EqualError(t, err, `conf/ds.json: train_micro_batch_size_per_gpu = 1: the Trainer's arguments say 2; write "auto", which takes them`)
	i, err := trainer("output_dir: x\nfsdp: true\nfsdp_config: conf/f.json", "", 8, launch.Input{Label: "f.json",
		Data: []byte(`{"fsdp_reshard_after_forward": false}`)}, launch.Input{Label: "notes.txt", Data: []byte("mine")})
	require.NoError(t, err)
	require.Equal(t, 2, valueOf(i, "parallel.zero"))
	require.Len(t, i.Ignored, 1)
	require.Equal(t, "notes.txt", i.Ignored[0].From)
	_, err = trainer("output_dir: x\nfsdp: true\nfsdp_config: f.json", "", 8)
	require.EqualError(t, err, `args.yaml: fsdp_config = "f.json": name that file as well`)
	_, err = trainer(arguments+"deepspeed: other.json", "", 16)
	require.EqualError(t, err, `args.yaml: deepspeed = "other.json": name that file as well`)
	bare := ds
	bare.Data = []byte(`{"train_batch_size": 128, "activation_checkpointing": {}, "zero_optimization": {"stage": 3}}`)
	for _, arguments := range []string{arguments, strings.Replace(arguments, "bf16", "fp16", 1)} {
		i, err := trainer(arguments, "", 16, bare)
		require.NoError(t, err)
		require.Equal(t, arguments[len(arguments)-11:len(arguments)-7], valueOf(i, "train.precision"), "it is the Trainer's")
	}
	bare.Data = []byte(`{"version": 2, "activation_checkpointing": true}`)
	i, err = trainer("output_dir: x\nfsdp: true\nfsdp_config: ds.json", "", 8, bare)
	require.NoError(t, err)
	require.Equal(t, "full", valueOf(i, "train.recompute"))
}

// TestTrainerErrors: each has one line that names the file and the key.
func TestTrainerErrors(t *testing.T) {
	for _, c := range []struct{ arguments, accelerate, want string }{
		{"per_device_train_batch_size: x", "", `args.yaml: per_device_train_batch_size = "x": must be a whole number`},
		{"per_device_train_batch_size: 0", "", "must be at least 1"},
		{"per_device_train_batch_size: 1.5", "", "must be a whole number"},
		{"per_device_train_batch_size: 1000000000000\ngradient_accumulation_steps: 1000000000000", "", "a step has too many samples"},
		{"output_dir: x\nbf16: true\nfp16: true", "", "fp16 = true: goes not with bf16; remove one of them"},
		{"", sharded + "fsdp_version: 7", "fsdp_config.fsdp_version = 7: must be 1 or 2"},
		{"", "distributed_type: MULTI_GPU\nnum_processes: {a: 1}", "num_processes.a = 1: num_processes must be a value, not a section"},
		{"output_dir: x\nfsdp: full_shard\nfsdp_config: '{\"fsdp_version\": 2'", "", "is not a whole object of JSON"},
		{"output_dir: x\ndeepspeed: '{\"a\": 1'", "", "is not a whole object of JSON"},
		{"output_dir: x\nbf16: 3", "", "bf16 = 3: must be true or false"},
		{"output_dir: x\noptim: galore_adamw", "", `optim = "galore_adamw": psim knows adamw_torch`},
		{"output_dir: x\nddp_backend: mpi", "", "psim knows nccl and gloo"},
		{"output_dir: x\nattn_implementation: best", "", "psim knows eager, sdpa"},
		{"output_dir: x\nuse_peft: true\nload_in_8bit: true", "", "psim knows weights of 16 bits and of 4 bits"},
		{"output_dir: x" + full + "version: 1\n  sharding_strategy: best", "", "psim knows FULL_SHARD"},
		{"output_dir: x" + full + "activation_checkpointing: 7", "", "must be true or false"},
		{"output_dir: x\nbase_model: y\nmicro_batch_size: 2", "", "is a key of axolotl's"},
		{"output_dir: x\nparallelism_config:\n  tp_size: 3", "", "are not the 8 devices"},
		{"output_dir: x\nfsdp_config: [3", "", "is in no program"},
		{"", "distributed_type: MULTI_CPU", `distributed_type = "MULTI_CPU": psim knows NO, MULTI_GPU, FSDP and DEEPSPEED`},
		{"", "distributed_type: MEGATRON_LM", "name Megatron-LM's log"},
		{"", "distributed_type: MULTI_GPU\nmixed_precision: int8", "psim knows no, fp16, bf16 and fp8"},
		{"", "distributed_type: MULTI_GPU\nmixed_precision: fp8\nfp8_config:\n  backend: MSAMP", "psim knows TE and AO"},
		{"", "distributed_type: MULTI_GPU\nnum_processes: 4", "num_processes = 4: --devices says 8; leave --devices out"},
		{"", "distributed_type: FSDP\nfsdp_config: 3", "must be a section with keys of its own"},
		{"output_dir: x\nfsdp: nonsense", "", "psim knows full_shard, shard_grad_op"},
		{"output_dir: x\nfsdp: full_shard", "distributed_type: DEEPSPEED", "fsdp = \"full_shard\": goes not with DeepSpeed"},
		{"", "distributed_type: MULTI_GPU\nnum_processes: 0", "num_processes = 0: must be at least 1"},
		{"", "distributed_type: MULTI_GPU\nnum_machines: 3", "num_machines = 3: does not divide the 8 devices"},
		{"", "distributed_type: FSDP\nparallelism_config:\n  parallelism_config_cp_size: 2\n  parallelism_config_sp_size: 2", "remove one of them"},
	} {
		_, err := trainer(c.arguments, c.accelerate, 8)
		if c.want == "is in no program" { // a file that is no YAML is no file of the Trainer's
			require.Error(t, err)
			continue
		}
		require.ErrorContains(t, err, c.want, c.arguments+c.accelerate)
		require.NotContains(t, err.Error(), "\n")
		require.Regexp(t, `^(args|accelerate)\.yaml: `, err.Error())
	}
	_, err := launch.Read([]launch.Input{{Label: "a.yaml", Data: []byte("output_dir: x\n")}}, launch.Options{})
	require.EqualError(t, err, "a.yaml: does not say what is trained; name the network's config.json as well")
	for name, file := range map[string]struct{ label, text, want string }{
		"cut":     {"ds.json", `{"zero_optimization": {"sta`, "ds.json: is not an object of JSON of at most 1024 kB; is it whole?"},
		"empty":   {"ds.json", "", "ds.json: is not an object of JSON"},
		"list":    {"ds.json", "[1]", "ds.json: is not an object of JSON"},
		"network": {"b.json", `{"model_type": "gpt2"}`, "b.json: is a second network, after config.json; name one of them"},
		"other":   {"b.yaml", "parallelism: {dp: 2}\nmodel: {model_config: {}}", "another file is of nanotron; name the files of one"},
	} {
		_, err = trainer("output_dir: x\ndeepspeed: ds.json", "", 8, launch.Input{Label: file.label, Data: []byte(file.text)})
		require.ErrorContains(t, err, file.want, name)
	}
	_, err = trainer("output_dir: x", "", 8, launch.Input{Label: "b.yaml", Data: []byte("output_dir: y\n")})
	require.ErrorContains(t, err, "is of the same kind as b.yaml; name one of them")
}

// FuzzKeyed: any text besides a network and the arguments of a Trainer ends in a configuration that psim writes, or in one
// error.
func FuzzKeyed(f *testing.F) {
	for _, c := range trainerCases {
		f.Add(c.arguments, c.accelerate)
	}
	f.Add("output_dir: x\n1: {2: 3}\nfsdp: {a: b}", "distributed_type: [FSDP]\nnum_processes: 99999999999999999999")
	f.Add(`{"train_batch_size": 64, "zero_optimization": {"stage": 3}}`, "[job]\n[training]\nseq_len = 4096\n[model]\n")
	f.Add("parallelism:\n  dp: 2\n  dp: 3\nmodel:\n  model_config: {a: 1}\n  model_config: {hidden_size: 64}\n", "")
	f.Fuzz(func(t *testing.T, arguments, accelerate string) {
		i, err := trainer(arguments, accelerate, 8)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			i, err = launch.Read([]launch.Input{{Label: "x", Data: []byte(arguments)}}, launch.Options{})
		}
		if err != nil {
			return
		}
		require.NoError(t, configs.WriteObject(&bytes.Buffer{}, nil, i.Config))
		require.NoError(t, i.WriteText(&bytes.Buffer{}))
	})
}
