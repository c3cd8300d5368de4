package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/schedules/graph"
)

// A backward in two passes is refused where its halves are tasks of their own, or divided.
func TestTwoPassRefused(t *testing.T) {
	for set, want := range map[string]string{
		"schedule.name=zb-h1":  `train.backward = "two-pass": schedule zb-h1 has tasks of their own for gradients of inputs and of weights; set "whole" or "per-layer"`,
		"parallel.tensor=2":    `train.backward = "two-pass": is not modelled with parallel.tensor = 2; set "whole" or "per-layer"`,
		"parallel.context=2":   `train.backward = "two-pass": is not modelled with parallel.context = 2; set "whole" or "per-layer"`,
		"train.recompute=full": `train.recompute = "full": must be none with backward = "two-pass"`,
	} {
		err := failure(configs.Parse("x.toml", []byte(networkKeys), "model.vocab=104", "model.attention=flash", "train.backward=two-pass", set))
		require.ErrorContains(t, err, want)
	}
}

// Layer by layer, a step takes what it takes whole; in two passes, longer. Stages hold what
// lies between their layers, which counts in their memory.
func TestBackwards(t *testing.T) {
	example := func(backward string) graph.Summary {
		c, err := configs.Load("vgg16-cpu-model", "train.backward="+backward)
		require.NoError(t, err)
		_, summary := run(t, c)
		return summary
	}
	whole, perLayer, twice := example("whole"), example("per-layer"), example("two-pass")
	require.Equal(t, whole.StepTime, perLayer.StepTime)
	require.Greater(t, twice.StepTime, whole.StepTime)
	require.Less(t, whole.Ranks[0].PeakMemory, perLayer.Ranks[0].PeakMemory, "the gradient between two convolutions is a tensor of its own")
	require.Less(t, perLayer.Ranks[1].PeakMemory, whole.Ranks[1].PeakMemory)
	for r := range twice.Ranks {
		require.Equal(t, perLayer.Ranks[r].PeakMemory, twice.Ranks[r].PeakMemory)
	}
}

// Three layers on devices 0, 0 and 1 become two partitions, the first of two layers.
func TestTaggedLayers(t *testing.T) {
	const text = "[schedule]\nname = \"gpipe\"\nstages = 2\npartition = \"tagged\"\n[model]\nfamily = \"mlp\"\nlayers = 3\nhidden = 8\n[batch]\nglobal = 4\n[machine]\ndevice = \"t4\"\nlink = \"pcie3\"\n"
	cut := func(placement string) ([]int, []int32) {
		experiment, err := parse(t, text, "schedule.placement="+placement).Build()
		require.NoError(t, err)
		return experiment.Staged.Layers, experiment.Staged.Placement.First
	}
	layers, ranks := cut("[0, 0, 1]")
	require.Equal(t, []int{2, 1}, layers)
	require.Equal(t, []int32{0, 1}, ranks)
	layers, ranks = cut("[1, 0, 1]") // back on a device is a partition of its own
	require.Equal(t, []int{1, 1, 1}, layers)
	require.Equal(t, []int32{1, 0, 1}, ranks)
	require.ErrorContains(t, failure(configs.Parse("x.toml", []byte(text))), `"tagged" needs placement to have the rank of each of 3 layers, and it has 0`)
	require.ErrorContains(t, failure(configs.Parse("x.toml", []byte(text), "schedule.placement=[0, 1]")), "and it has 2")
}
