package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Megatron's kernels are counted for 16 bits; in fp32, that is a warning.
func TestKernelsInFP32(t *testing.T) {
	for precision, want := range map[string]int{"fp32": 1, "bf16": 0} {
		plan, err := parse(t, network, "model.kernels=megatron", "machine.device=a100-80gb-sxm", "machine.devices_per_node=8", "train.precision="+precision).Build()
		require.NoError(t, err)
		require.Len(t, plan.Warnings, want)
	}
}
