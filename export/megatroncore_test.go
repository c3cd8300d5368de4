package export_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/export"
	"psim/schedules/graph"
)

// ofProvider are keys that Megatron-Bridge's provider of a model adds to megatron-core's.
var ofProvider = []string{
	"_target_", "make_vocab_size_divisible_by", "position_embedding_type", "rotary_base", "seq_length", "share_embeddings_and_output_weights", "should_pad_vocab", "vocab_size",
}

// TestMegatronCore: megatron-core takes what export nemo writes as legal, understands the same, and goes through microbatches
// and chunks of layers in the same order (make peers-megatron).
func TestMegatronCore(t *testing.T) {
	python := os.Getenv("PSIM_MEGATRON_CORE")
	if python == "" {
		t.Skip("PSIM_MEGATRON_CORE names no Python with megatron-core: make peers-megatron")
	}
	for set, want := range map[string]map[string]any{
		"parallel.data=8": {"num_layers": 32, "num_query_groups": 8, "tensor_model_parallel_size": 1, "bf16": true, "recompute_granularity": nil},
		"parallel.data=2 parallel.tensor=4 parallel.sequence=true train.recompute=selective": {
			"tensor_model_parallel_size": 4, "sequence_parallel": true, "recompute_granularity": "selective", "recompute_modules": []any{"core_attn"},
		},
		"parallel.data=2 parallel.context=4 train.recompute=full": {"context_parallel_size": 4, "recompute_granularity": "full"},
		"parallel.data=4 schedule.name=1f1b schedule.stages=2 schedule.partition=blocks": {
			"pipeline_model_parallel_size": 2, "virtual_pipeline_model_parallel_size": nil,
		},
		"parallel.data=2 schedule.name=interleaved-1f1b schedule.stages=4 schedule.virtual_stages=4 schedule.partition=blocks": {
			"pipeline_model_parallel_size": 4, "virtual_pipeline_model_parallel_size": 4,
		},
		"parallel.data=1 schedule.name=interleaved-1f1b schedule.stages=4 schedule.virtual_stages=2 schedule.group=8 schedule.partition=blocks": {
			"virtual_pipeline_model_parallel_size": 2,
		},
		"parallel.data=8 train.precision=fp8 train.fp8_recipe=current":                                   {"fp8": "hybrid", "fp8_recipe": "tensorwise"},
		"parallel.data=8 model.preset=mixtral-8x7b parallel.expert=8 train.recompute=[\"moe_act\"]":      {"num_moe_experts": 8, "expert_model_parallel_size": 8, "recompute_modules": []any{"moe_act"}},
		"parallel.data=32 model.preset=deepseek-v3 parallel.expert=32 train.recompute=[\"mla_up_proj\"]": {"num_moe_experts": 256, "moe_router_topk": 8, "recompute_modules": []any{"mla_up_proj"}},
		"parallel.data=8 train.offload_activations=16 machine.device=gb200-nvl72":                        {"cpu_offloading_num_layers": 16},
	} {
		c, err := configs.Parse("plan.toml", []byte("[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama3-8b\"\n[batch]\nglobal = 64\nmicro = 1\n"+
			"[train]\nstack = \"megatron-te\"\nprecision = \"bf16\"\n[machine]\ndevice = \"h100-80gb-sxm\"\nnetwork = \"ib-ndr\"\n"))
		require.NoError(t, err)
		c, err = c.With(strings.Fields(set)...)
		require.NoError(t, err, set)
		var text bytes.Buffer
		_, err = export.WriteNemo(t.Context(), &text, c)
		require.NoError(t, err, set)
		path := filepath.Join(t.TempDir(), "run_config.yaml")
		require.NoError(t, os.WriteFile(path, text.Bytes(), 0o666))
		built, err := c.Build()
		require.NoError(t, err, set)
		command := exec.Command(python, "../tools/peers/megatron_config.py", path, strconv.Itoa(int(c.Devices())))
		var problems bytes.Buffer
		command.Stderr = &problems
		out, err := command.Output()
		require.NoError(t, err, "%s: %s", set, problems.String())
		var got struct {
			Understood map[string]any
			Unknown    []string
			Order      [][2]int
		}
		require.NoError(t, json.Unmarshal(out, &got), string(out))
		for key, value := range want {
			require.EqualValues(t, value, got.Understood[key], "%s of %s", key, set)
		}
		require.Subset(t, ofProvider, got.Unknown, set)
		require.Equal(t, c.Schedule.VirtualStages > 1, len(got.Order) > 0, set)
		if len(got.Order) > 0 {
			require.Equal(t, got.Order, forwards(built.Graph), set)
		}
	}
}

// forwards lists the microbatch and the chunk of every forward of the first rank, in its order.
func forwards(g *graph.Graph) (list [][2]int) {
	for _, task := range g.Tasks() {
		if task.Rank == 0 && task.Kind == graph.Forward {
			list = append(list, [2]int{int(task.Microbatch), int(task.Stage) / g.Shape.Ranks})
		}
	}
	return list
}
