package published

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/costmodel"
)

// What was fitted is what users get: the catalog's A100, and the example of
// Megatron-DeepSpeed.
func TestFittedMachines(t *testing.T) {
	devices := configs.Catalog().Devices
	a100 := devices[slices.IndexFunc(devices, func(d costmodel.Device) bool { return d.Name == "a100-80gb-sxm" })]
	fitted, err := configs.ParseMachine("fit", []byte(korthikantiMachine))
	require.NoError(t, err)
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
	plan, err := example.Build()
	require.NoError(t, err)
	machine, err := configs.ParseMachine("fit", []byte(vtrainMachine))
	require.NoError(t, err)
	machine.Tensor = plan.Machine.Tensor
	require.Equal(t, machine, plan.Machine)
}
