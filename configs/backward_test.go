package configs_test

import (
	"testing"
	"time"

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

// The I of the first stage takes no time with split = "stage", which is what PyTorch does and so
// torchtitan's default, and with [times] that say so. The stages' work is the same.
func TestSplit(t *testing.T) {
	passes := func(c *configs.Config) (first, all map[graph.Kind]time.Duration) {
		e, _ := run(t, c)
		first, all = map[graph.Kind]time.Duration{}, map[graph.Kind]time.Duration{}
		for _, task := range e.Graph.Tasks() {
			took := e.Costs.Task(&task).Busy
			if all[task.Kind] += took; task.Stage == 0 {
				first[task.Kind] += took
			}
		}
		return first, all
	}
	example := func(sets ...string) (first, all map[graph.Kind]time.Duration) {
		c, err := configs.Load("gpipe", append([]string{"schedule.name=zb-h1"}, sets...)...)
		require.NoError(t, err)
		return passes(c)
	}
	layer, all := example()
	stage, allByStage := example("train.split=stage")
	require.Positive(t, layer[graph.InputGradient])
	require.Zero(t, stage[graph.InputGradient])
	require.Equal(t, layer[graph.InputGradient]+layer[graph.WeightGradient], stage[graph.WeightGradient])
	require.Equal(t, all[graph.Forward], allByStage[graph.Forward])
	byStack, _ := example("train.stack=torchtitan")
	require.Zero(t, byStack[graph.InputGradient])
	byStack, _ = example("train.stack=torchtitan", "train.split=layer")
	require.Positive(t, byStack[graph.InputGradient])

	timed, _ := passes(parse(t, "[schedule]\nname = \"zb-h1\"\nstages = 2\nmicrobatches = 4\n[times]\nforward = \"40ms\"\n"+
		"backward_input = [\"0ms\", \"51ms\"]\nbackward_weight = [\"84ms\", \"50ms\"]\n"))
	require.Zero(t, timed[graph.InputGradient])
	require.Equal(t, 4*84*time.Millisecond, timed[graph.WeightGradient])

	c, err := configs.Load("gpipe", "train.split=stage")
	require.NoError(t, err)
	e, err := c.Build()
	require.NoError(t, err)
	require.Contains(t, e.Warnings, `train.split = "stage": no effect with schedule.name = "gpipe", which splits no backward`)
	c, err = configs.Load("gpipe", "train.split=stage", "schedule.name=zb-h1", "parallel.delay_weights=true")
	require.NoError(t, err)
	_, err = c.Build()
	require.ErrorContains(t, err, `train.split = "stage": is not modelled with parallel.delay_weights = true; set split = "layer"`)
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
