package models

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// Transformer Engine starts a kernel for every expert of a device, with gate and up in one,
// and makes their operands narrow one by one; fused kernels are one for all.
func TestExpertKernels(t *testing.T) {
	kernels := func(m Model, precision string, devices int) (list [3]int) {
		n := on(t, m, group.Group{Devices: 1, Expert: devices})
		n = training.Options{Precision: precision}.Trained(n)
		for _, o := range n.Layers[1].Ops {
			if strings.Contains(o.Name, ".experts.w") {
				for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
					list[p] += o.Kernels(p, 1)
				}
			}
		}
		return list
	}
	m := Model{Preset: "qwen3-30b-a3b", Kernels: "te", Attention: AttentionFlash}
	require.Equal(t, [3]int{2 * 16, 2 * 16, 2 * 16}, kernels(m, "bf16", 8))
	require.Equal(t, [3]int{2 * 8, 2 * 8, 2 * 8}, kernels(m, "bf16", 16))
	require.Equal(t, [3]int{4 * 16, 4 * 16, 2 * 16}, kernels(m, "mxfp8", 8), "a cast for each")
	require.Equal(t, [3]int{6 * 16, 6 * 16, 2 * 16}, kernels(m, "fp8", 8), "which finds the largest value first")
	m.Kernels = KernelsFused
	require.Equal(t, [3]int{3, 3, 3}, kernels(m, "bf16", 8))
}

// Experts with biases have these added, and what goes into their function bounded, apart.
func TestExpertsOfGPTOSS(t *testing.T) {
	names := func(m Model) (list []string) {
		for _, o := range on(t, m, group.Group{Devices: 1, Expert: 8}).Layers[1].Ops {
			if name, ok := strings.CutPrefix(o.Name, "mlp.experts."); ok {
				list = append(list, name)
			}
		}
		return list
	}
	m := Model{Preset: "gpt-oss-120b", Kernels: "te", Attention: AttentionFlash}
	require.Equal(t, []string{"clamp", "silu", "gate", "bias"}, names(m))
	m.Kernels = KernelsFused
	require.Equal(t, []string{"silu", "gate"}, names(m))
}
