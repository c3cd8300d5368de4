package published

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/costmodel"
)

// machineOf builds the machine that a [machine] section describes.
func machineOf(t *testing.T, section string) costmodel.Machine {
	c, err := configs.Parse("fit", []byte("schedule.name = \"ddp\"\nmodel.preset = \"gpt2\"\nbatch.global = 1\n"+section))
	require.NoError(t, err)
	experiment, err := c.Build()
	require.NoError(t, err)
	return experiment.Machine
}

// What was fitted is what users get: the catalog's A100, and the example of
// Megatron-DeepSpeed.
func TestFittedMachines(t *testing.T) {
	devices := configs.Catalog().Devices
	a100 := devices[slices.IndexFunc(devices, func(d costmodel.Device) bool { return d.Name == "a100-80gb-sxm" })]
	fitted := machineOf(t, read("testdata/korthikanti_machine.toml"))
	for _, precision := range []string{"fp16", "bf16"} {
		want, err := fitted.Device.Achievable(precision)
		require.NoError(t, err)
		got, err := a100.Achievable(precision)
		require.NoError(t, err)
		require.InEpsilon(t, want, got, 1e-3)
	}
	require.Equal(t, fitted.Device.MemoryBandwidth, a100.MemoryBandwidth)
	require.Equal(t, fitted.Device.Efficiency.Memory, a100.Efficiency.Memory)
	require.Equal(t, fitted.Device.Launch, a100.Launch)

	example, err := configs.Load("megatron-deepspeed")
	require.NoError(t, err)
	experiment, err := example.Build()
	require.NoError(t, err)
	machine := machineOf(t, read("testdata/vtrain_machine.toml"))
	machine.Tensor = experiment.Machine.Tensor
	require.Equal(t, machine, experiment.Machine)
}
