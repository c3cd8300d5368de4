package keyed_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/launch"
	"psim/launch/understood"
)

// submitted reads variables as a config_*.sh exports them, with a common file where one is sourced.
func submitted(label string, lines ...string) (*launch.Import, error) {
	export := func(lines ...string) []byte { return []byte("export " + strings.Join(lines, "\nexport ") + "\n") }
	files := []launch.Input{
		{Label: label, Data: append([]byte("source $(dirname ${BASH_SOURCE[0]})/config_common.sh\n"), export(lines...)...)},
		{Label: "config_common.sh", Data: export("USE_DIST_OPTIMIZER=True", "MICRO_BATCH_SIZE=2", "FP8=True", "FP8_RECIPE=tensorwise", "FOO=1", "NCCL_X=2")},
	}
	return launch.Read(files, launch.Options{})
}

// TestSubmission: settings of submissions to MLPerf Training, written anew, become those that published/testdata has of
// the same runs: 5.1 of Nebius (nebius_h200_n128), of the University of Florida (hpg.dgxb200x8.n1), of MangoBoost
// (MI300X-LLMBoost-GPUBoost-2node) and of AMD's form for Llama 3.1 8B.
func TestSubmission(t *testing.T) {
	for _, c := range []struct {
		label string
		lines []string
		want  map[string]any
	}{
		{"config.sh", []string{
			"MODEL_SIZE=405b", "MINIBS=72", "TENSOR_MODEL_PARALLEL=4", "PIPELINE_MODEL_PARALLEL=8", "INTERLEAVED_PIPELINE=8", "CONTEXT_PARALLEL=2",
			"MICRO_BATCH_SIZE=1", "DGXNNODES=128", "DGXNGPU=8", "TP_COMM_OVERLAP=True", "ASYM_PP_EMBED=True",
		}, map[string]any{
			"schedule.name": "interleaved-1f1b", "schedule.stages": 8, "schedule.virtual_stages": 8, "schedule.partition": "blocks", "model.preset": "llama3-405b",
			"model.sequence_length": 8192, "batch.global": 1152, "batch.micro": 1, "parallel.data": 16, "parallel.context": 2, "parallel.zero": 1, "parallel.tensor": 4,
			"parallel.sequence": true, "train.stack": "megatron-te", "train.precision": "fp8", "train.optimizer": "adamw", "train.clip": true, "train.fp8_recipe": "current",
		}},
		{"config.sh", []string{
			"MODEL_SIZE=8b", "MINIBS=2", "TENSOR_MODEL_PARALLEL=1", "INTERLEAVED_PIPELINE=null", "SEQ_PARALLEL=False", "DGXNNODES=1", "DGXNGPU=8", "OVERWRITTEN_NUM_LAYERS=32",
		}, map[string]any{
			"schedule.name": "ddp", "model.preset": "llama3-8b", "batch.global": 16, "batch.micro": 2, "parallel.data": 8, "train.precision": "fp8", "model.layers": nil,
			"schedule.partition": nil, "parallel.tensor": nil,
		}},
		{"config.sh", []string{
			"LORA_A2A=1", "TP=1", "PP=1", "CP=2", "SP=False", "MBS=1", "MICRO_BATCH_SIZE=null", "MINIBS=1", "DGXNNODES=2", "DGXNGPU=8", "FP8_DPA=0", "FP8_ACTIVATION=True", "FP8_RECIPE=",
			"ACG=full", "ACM=block", "ACL=21",
		}, map[string]any{
			"model.preset": "llama2-70b", "train.adapter.kind": "lora", "train.adapter.rank": 16, "batch.global": 8, "batch.micro": 1, "parallel.data": 8, "parallel.context": 2,
			"parallel.context_method": "ulysses", "train.precision": "fp8", "train.fp8_recipe": "delayed", "train.recompute": "full", "train.recompute_method": "block",
			"train.recompute_layers": 21, "train.keep_8bit": []string{"activation"}, "train.gradients": "bf16",
		}},
		{"AMD/config_MI355X_1x8x1_8b.sh", []string{"SIZE=8b", "GBS=32", "MBS=2", "MICRO_BATCH_SIZE=null", "TP=1", "PP=1", "CP=1", "NNODES=1", "GPUS_PER_NODE=8", "FP8=null"}, map[string]any{
			"model.preset": "llama3-8b", "batch.global": 32, "batch.micro": 2, "parallel.data": 8, "train.precision": "bf16",
		}},
		{"x/benchmarks/gpt3/config.sh", []string{"MINIBS=128", "TENSOR_MODEL_PARALLEL=4", "PIPELINE_MODEL_PARALLEL=8", "DGXNNODES=64", "FP4=1", "FP8_DPA=1", "NVTE_FP8_DPA_BWD=1"}, map[string]any{
			"model.preset": "megatron-175b", "model.sequence_length": 2048, "schedule.name": "1f1b", "parallel.data": 16, "batch.global": 2048, "train.precision": "nvfp4",
			"train.fp8_recipe": nil, "train.keep_8bit": []string{"attention"}, "train.offload_activations": nil,
		}},
		{"x/llama31_8b/config.sh", []string{"MINIBS=2", "TENSOR_MODEL_PARALLEL=1", "DGXNNODES=1", "CPU_OFFLOADING=1", "CPU_OFFLOADING_NUM_LAYERS=${OFFLOAD_LAYERS:=11}", "FP8_RECIPE=mxfp8", "USE_DIST_OPTIMIZER=False"}, map[string]any{
			"model.preset": "llama3-8b", "train.offload_activations": 11, "train.precision": "mxfp8", "parallel.zero": 0,
		}},
	} {
		i, err := submitted(c.label, c.lines...)
		require.NoError(t, err, c.lines)
		require.Equal(t, 8, i.EachNode)
		for key, want := range c.want {
			require.Equal(t, want, configured(i, key), "%s of %v", key, c.lines)
		}
		require.Equal(t, 1, i.Unknown, "FOO")
		require.Contains(t, i.Ignored, understood.Ignored{From: "NCCL_X = 2", Reason: "how NCCL exchanges data"})
	}
}

// configured returns what an import gives a key; nil if nothing.
func configured(i *launch.Import, key string) any {
	var value any = i.Config
	for _, name := range strings.Split(key, ".") {
		table, _ := value.(map[string]any)
		value = table[name]
	}
	return value
}

// TestWrongSubmission: what cannot be is one error that names its variable.
func TestWrongSubmission(t *testing.T) {
	right := []string{"MODEL_SIZE=8b", "MINIBS=2", "TENSOR_MODEL_PARALLEL=1", "DGXNNODES=1"}
	_, err := submitted("config.sh", right...)
	require.NoError(t, err)
	for line, want := range map[string]string{
		"MINIBS=x": `MINIBS = "x": must be a whole number`, "MINIBS=0": "MINIBS = 0: must be at least 1", "MINIBS=3": "MINIBS = 3: is 3 samples of a replica, which MICRO_BATCH_SIZE = 2 must divide",
		"TENSOR_MODEL_PARALLEL=3": "DGXNNODES × DGXNGPU are 8 devices, which groups of 3", "DGXNNODES=99999999999999": "must be a whole number below", "DGXNNODES=1000000000000": "devices, which groups of",
		"MODEL_SIZE=7b": `psim knows 8b and 405b, of Llama 3.1`, "MODEL_SIZE=null": "no variable says which benchmark it is for", "FP8=maybe": "FP8 = \"maybe\": must be true or false", "FP8_RECIPE=odd": "psim knows blockwise, delayed",
		"ACG=odd": "must be full or selective", "DGXNGPU=-1": "DGXNGPU = -1: must be at least 1", "CPU_OFFLOADING_NUM_LAYERS=x": "must be a whole number",
	} {
		_, err := submitted("config.sh", append(right, line)...)
		require.ErrorContains(t, err, want, line)
	}
	_, err = submitted("config.sh", append(right, "MINIBS=null", "GBS=12", "NNODES=1", "SIZE=8b", "TP=1")...)
	require.ErrorContains(t, err, "GBS = 12: must be a multiple of the 8 replicas")
}
