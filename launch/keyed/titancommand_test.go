package keyed_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/launch"
)

// command reads a script that starts torchtitan 0.3 with flags, by default for Llama 3 8B.
func command(flags string, more ...launch.Input) (*launch.Import, error) {
	if !strings.Contains(flags, "--config") {
		flags = "--module llama3 --config llama3_8b " + flags
	}
	script := "torchrun --nproc_per_node=8 -m torchtitan.train " + flags + "\n"
	return launch.Read(append([]launch.Input{{Label: "t.sh", Data: []byte(script)}}, more...), launch.Options{})
}

// commandCases are flags of torchtitan 0.3 with the key of psim's that each decides.
var commandCases = []struct {
	flags, key string
	want       any
}{
	{"", "model.preset", "llama3-8b"}, {"", "parallel.data", 8}, {"", "parallel.zero", 3}, {"", "model.loss", "fused"},
	{"", "train.recompute", "selective"}, {"", "model.kernels", "eager"}, {"", "train.gradients", "fp32"},
	{"--module llama3 --config llama3_405b", "train.precision", "fp8"}, {"--module=llama3 --config=llama3_70b", "batch.micro", 8},
	{"--module llama3 --config llama3_8b_first_85_pct_layers_nvfp4", "train.bf16_last", 5},
	{"--module llama3 --config llama3_8b_mxfp8", "model.kernels", nil},
	{"--module gpt_oss --config gpt_oss_120b", "model.preset", "gpt-oss-120b"},
	{"--training.local_batch_size 2", "batch.micro", 2}, {"--training.local-batch-size=2", "batch.global", 16},
	{"--training.global_batch_size 64", "batch.global", 64}, {"--training.seq_len 4096", "model.sequence_length", 4096},
	{"--training.max_norm 2.0", "train.clip", true}, {"--training.mixed_precision_param float32", "train.precision", "fp32"},
	{"--training.mixed_precision_reduce float32", "train.gradients", "fp32"},
	{"--parallelism.data_parallel_replicate_degree 8 --parallelism.data_parallel_shard_degree 1", "parallel.zero", 0},
	{"--parallelism.fsdp_reshard_after_forward never", "parallel.zero", 2},
	{"--parallelism.tensor_parallel_degree 2", "parallel.sequence", true},
	{"--parallelism.tensor_parallel_degree 2 --parallelism.no-enable-sequence-parallel", "parallel.sequence", false},
	{"--parallelism.context_parallel_degree 2", "parallel.context_method", "all-gather"},
	{"--training.disable_cuda_graphs --parallelism.pipeline_parallel_degree 2 --training.local_batch_size 4", "schedule.partition", []int{17, 18}},
	{"--training.disable_cuda_graphs --parallelism.pipeline_parallel_degree 2 --training.local_batch_size 4 " +
		"--parallelism.pipeline_parallel_schedule ZBVZeroBubble --parallelism.pipeline_parallel_layers_per_stage 9", "schedule.name", "zbv"},
	{"--training.disable_cuda_graphs --parallelism.pipeline_parallel_degree 2 --training.local_batch_size 4 --parallelism.pipeline_parallel_microbatch_size 2 " +
		"--parallelism.pipeline_parallel_first_stage_less_layers 3 --parallelism.pipeline_parallel_last_stage_less_layers 1", "schedule.partition", []int{16, 19}},
	{"--module qwen3 --config qwen3_30b_a3b --training.disable_cuda_graphs --parallelism.expert_parallel_degree 4", "parallel.expert", 4},
	{"activation-checkpoint:full", "train.recompute", "full"}, {"activation-checkpoint:none --compile.enable", "train.recompute", "none"},
	{"--compile.enable --compile.components loss", "model.kernels", "eager"}, {"--compile.enable", "model.kernels", nil},
	{"--compile.enable --compile.enable_async_tensor_parallel --parallelism.tensor_parallel_degree 2", "parallel.tensor_overlap", true},
	{"--optimizer.implementation fused_opt_states_bf16", "train.moments", "bf16"},
}

// TestTitanCommand: every flag that the table calls mapped decides a key, or is named.
func TestTitanCommand(t *testing.T) {
	seen := strings.ReplaceAll("--activation_checkpoint.mode --training.disable_cuda_graphs", "-", "_")
	for _, c := range commandCases {
		i, err := command(c.flags)
		require.NoError(t, err, c.flags)
		require.Equal(t, c.want, valueOf(i, c.key), "%s: %s", c.flags, c.key)
		require.Zero(t, i.Unknown, "%s: %v", c.flags, i.Ignored)
		seen += strings.ReplaceAll(strings.ReplaceAll(c.flags, "no-", ""), "-", "_")
	}
	for flags, name := range map[string]string{
		"--loss.num_chunks 4": "loss.num_chunks = 4", "--training.dtype bfloat16": "training.dtype = ", "": "training.disable_cuda_graphs = false",
		"--debug.deterministic": "debug.deterministic = true",
	} {
		i, err := command(flags)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(i.Ignored), name)
		seen += strings.ReplaceAll(flags, "-", "_")
	}
	for _, key := range mappedKeys(t, "torchtitan_command.csv") {
		require.Contains(t, seen, key, "is called mapped, and no case shows it")
	}
	i, err := command("--training.mine 3 --metrics.log_freq 1 --debug.seed 4")
	require.NoError(t, err)
	require.Equal(t, 1, i.Unknown)
	require.Equal(t, 2, i.Idle)
	for flags, want := range map[string]string{
		"--parallelism.pipeline_parallel_degree 2":                                        "give --training.disable_cuda_graphs",
		"--module llama3 --config llama3_9b":                                              "--config llama3_9b: psim does not know what it sets; it knows llama3_debugmodel",
		"--module qwen3 --config llama3_8b":                                               "has no configuration llama3_8b",
		"--module qwen3 --config qwen3_14b":                                               "does not know the sizes of qwen3_14b; name its config.json as well",
		"--training.seq_len x":                                                            "must be a whole number",
		"--parallelism.tensor_parallel_degree 3":                                          "devices, and --devices says 8",
		"activation-checkpoint:memory-budget":                                             "psim knows none, selective and full",
		"--parallelism.enable_sequence_parallel 3 --parallelism.tensor_parallel_degree 2": "must be true or false",
	} {
		_, err := command(flags)
		require.ErrorContains(t, err, want, flags)
		require.NotContains(t, err.Error(), "\n")
		require.True(t, strings.HasPrefix(err.Error(), "t.sh: "), err)
	}
	i, err = command("--module qwen3 --config qwen3_14b", launch.Input{Label: "config.json", Data: []byte(`{"model_type": "qwen3"}`)})
	require.NoError(t, err)
	require.Equal(t, "config.json", valueOf(i, "model.file"))
}

// TestTitanScripts: a script that runs or sources torchtitan's own, which is given as well, hands on its arguments.
func TestTitanScripts(t *testing.T) {
	its := launch.Input{Label: "run_train.sh", Data: []byte("#!/bin/bash\nNGPU=${NGPU:-4}\ntorchrun --nproc_per_node=${NGPU} " +
		"-m torchtitan.train --module ${MODULE:-llama3} --config ${CONFIG:-llama3_8b} \"$@\"\n")}
	for _, line := range []string{
		"NGPU=8 CONFIG=llama3_70b ./run_train.sh", "NGPU=8 CONFIG=llama3_70b bash ./run_train.sh",
		"export NGPU=8; CONFIG=llama3_70b\n. ./run_train.sh",
	} {
		line += " --training.global_batch_size 64"
		i, err := launch.Read([]launch.Input{{Label: "mine.sh", Data: []byte(line + "\n")}, its}, launch.Options{})
		require.NoError(t, err, line)
		require.Equal(t, 64, valueOf(i, "batch.global"), line)
		require.Equal(t, 8, valueOf(i, "parallel.tensor"), line)
		require.Equal(t, "llama3-70b", valueOf(i, "model.preset"), line)
	}
}
