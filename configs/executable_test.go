package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What has to be changed for an execution is said, and is a warning of the plan.
func TestExecutableChanges(t *testing.T) {
	for _, c := range []struct {
		sets    []string
		devices int
		want    []string
	}{
		{[]string{"machine.device=cpu-core"}, 2, nil},
		{nil, 2, []string{"runs on the devices of this machine, not on t4"}},
		{[]string{"train.precision=bf16", "machine.device=a100-80gb-sxm"}, 1, []string{
			"runs on 1 device instead of 2 stages", "runs in fp32, not bf16", "runs attention over the whole square, not in one kernel",
			"runs on the devices of this machine, not on a100-80gb-sxm"}},
		{[]string{"schedule.name=gpipe", "schedule.whole_last=true", "machine.device=cpu-core"}, 2, []string{"runs the last stage one microbatch at a time, not on all at once"}},
		{[]string{"model.kernels=megatron", "machine.device=cpu-core"}, 2, []string{"runs with kernels of its own, not those of megatron"}},
		{[]string{"train.detect_anomaly=true", "machine.device=cpu-core"}, 2, []string{"runs without checking gradients for NaN"}},
		{[]string{"parallel.data=2", "machine.device=cpu-core"}, 2, []string{"runs on 2 devices instead of 2 stages × 2 replicas"}},
	} {
		next, changes, err := parse(t, networkKeys, c.sets...).Executable(c.devices)
		require.NoError(t, err)
		require.Equal(t, c.want, changes)
		experiment, err := next.Build()
		require.NoError(t, err)
		require.Equal(t, c.want, experiment.Warnings)
	}
	_, _, err := parse(t, networkKeys, "schedule.partition=[3,4]").Executable(3)
	require.EqualError(t, err, "3 devices for x: its partition or placement is for 2 stages: set schedule.stages = 3 and one for that, or leave --gpus out")
}

// What is simulated alone is refused in one line, whatever else is asked for.
func TestNotExecuted(t *testing.T) {
	const text = "[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama2-7b\"\nsequence_length = 16\n[batch]\nglobal = 8\n[machine]\ndevice = \"a100-80gb-sxm\"\n"
	for _, e := range []struct {
		sets []string
		want string
	}{
		{[]string{"parallel.tensor=2"}, "parallel.tensor = 2: is simulated, but not executed"},
		{[]string{"train.optimizer=lion", "train.adapter.kind=lora"}, `; also train.adapter.kind = "lora": is simulated, but not executed; set kind = "none"`},
		{[]string{"model.preset=mixtral-8x7b"}, "model: a mixture of experts is simulated, but not executed"},
		{[]string{"train.precision=fp8", "machine.device=h100-80gb-sxm"}, `train.precision = "fp8": is simulated, but not executed`},
		{[]string{"train.precision=nvfp4", "machine.device=b200-180gb-sxm"}, `train.precision = "nvfp4": is simulated, but not executed`},
		{[]string{"train.moments=bf16"}, `train.moments = "bf16": is simulated, but not executed`},
		{[]string{"train.clip=true"}, "train.clip = true: is simulated, but not executed"},
		{[]string{"train.recompute=selective"}, `train.recompute = "selective": is simulated, but not executed`},
		{[]string{`train.recompute=["core_attn"]`}, `train.recompute = "core_attn": is simulated, but not executed`},
		{[]string{"model.preset=mixtral-8x7b", "parallel.data=2", "parallel.expert=2"}, "parallel.expert = 2: is simulated, but not executed"},
		{[]string{"parallel.context=2", "model.attention=flash"}, "parallel.context = 2: is simulated, but not executed"},
		{[]string{"train.precision=fp8", "machine.device=h100-80gb-sxm"}, `train.precision = "fp8": is simulated, but not executed`},
		{[]string{"train.precision=nvfp4", "machine.device=gb200-nvl72"}, `train.precision = "nvfp4": is simulated, but not executed`},
		{[]string{"train.precision=bf16", "train.moments=bf16"}, `train.moments = "bf16": is simulated, but not executed`},
		{[]string{"train.recompute=full", "train.recompute_layers=2"}, "train.recompute_layers = 2: is simulated, but not executed"},
		{[]string{"parallel.data=2", "parallel.zero=1"}, "parallel.zero = 1: is simulated, but not executed"},
	} {
		c, err := parse(t, text).With(e.sets...)
		require.NoError(t, err)
		_, _, err = c.Executable(0)
		require.ErrorContains(t, err, e.want)
		_, err = c.Build()
		require.NoError(t, err)
	}
	// One replica has nothing to shard, but --gpus makes two of it.
	_, _, err := parse(t, text, "parallel.zero=1").Executable(2)
	require.ErrorContains(t, err, "parallel.zero = 1: is simulated, but not executed; set zero = 0 or zero = 3")
}

// Layers are measured whole.
func TestTensorNotMeasured(t *testing.T) {
	c := parse(t, "[schedule]\nname = \"ddp\"\n[model]\npreset = \"llama2-7b\"\n[batch]\nglobal = 8\n[parallel]\ntensor = 4\n[machine]\ndevice = \"a100-80gb-sxm\"\n")
	_, _, err := c.Trained()
	require.ErrorContains(t, err, "parallel.tensor = 4: layers are measured whole")
	_, _, err = parse(t, networkKeys, "model.kernels=megatron").Trained()
	require.ErrorContains(t, err, `model.kernels = "megatron": layers are measured with kernels of psim's own; set model.kernels = "fused"`)
}
