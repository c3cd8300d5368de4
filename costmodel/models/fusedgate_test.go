package models_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/training"
)

// Megatron's fused gate keeps what it reads, and weighs tokens itself: of a Llama's block
// 7 h less than two kernels do (h features, 3.5 h of the MLP, 2 bytes), and of a mixture no
// results of experts.
func TestFusedGateKeepsLess(t *testing.T) {
	names := func(preset, kernels string) (list []string, bytes int64) {
		n, err := models.Model{Preset: preset, SequenceLength: 128, Attention: models.AttentionFlash, Kernels: kernels}.Network()
		require.NoError(t, err)
		block := n.Layers[len(n.Layers)-3]
		for _, b := range (training.Options{Precision: "bf16"}).Kept(block) {
			list, bytes = append(list, b.Name), bytes+b.Bytes(2)
		}
		return list, bytes
	}
	_, two := names("llama3-70b", models.KernelsFused)
	_, one := names("llama3-70b", "te")
	require.Equal(t, int64(2*128*28672), two-one)
	two8, _ := names("deepseek-v3", models.KernelsFused)
	one8, _ := names("deepseek-v3", "te")
	gone := slices.DeleteFunc(two8, func(name string) bool { return slices.Contains(one8, name) })
	require.ElementsMatch(t, []string{"mlp.experts.output", "mlp.experts.silu.output", "mlp.shared_experts.silu.output"}, gone)
}
