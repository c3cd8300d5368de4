package exec_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/training"
	"psim/exec"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// gradientCalls counts, by rank, the programs that make gradients in a step of a VGG that
// is cut by network.VGG16Split.
func gradientCalls(t *testing.T, workers int, backward string, samples []int) []int {
	n := preset(t, "vgg-mini-pipeline")
	w := mode{schedule: "gpipe", ranks: workers, replicas: 1, backward: backward}.workload(t, n, samples)
	var err error
	w.Layers, err = models.VGG16Split(workers)
	require.NoError(t, err)
	j := job(t, n, "gpipe", workers, samples, false)
	j.Staged = w.Staged()
	s, err := schedules.Find("gpipe")
	require.NoError(t, err)
	var p wiring.Pipeline
	p, err = s.Pipeline(graph.Shape{Ranks: workers, Microbatches: len(samples), Replicas: 1}, nil)
	require.NoError(t, err)
	j.Staged.Fill(&p)
	p.Optimizer = true
	j.Graph, err = p.Graph()
	require.NoError(t, err)
	devices, err := exec.OpenDevices(workers, exec.DeviceOptions{Oversubscribe: true})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	_, _, err = trainer.Step(context.Background(), batches(t, n, 4, 1)[0], exec.RunOptions{})
	require.NoError(t, err)
	return trainer.Calls()
}

// Backwards layer by layer call for gradients as often as a partition has layers, of which
// dropouts that are off are none; in two passes once more for every layer with parameters,
// as programs that call torch.autograd.grad do. A whole backward is one call.
func TestGradientCalls(t *testing.T) {
	for workers, perLayer := range map[int][]int{1: {11}, 2: {5, 6}, 3: {2, 3, 6}} {
		require.Equal(t, perLayer, gradientCalls(t, workers, training.BackwardPerLayer, []int{4}))
	}
	require.Equal(t, []int{1, 1, 1}, gradientCalls(t, 3, training.BackwardWhole, []int{4}))
	require.Equal(t, []int{4, 6, 9}, gradientCalls(t, 3, training.BackwardTwoPass, []int{4}))
	require.Equal(t, []int{8, 12, 18}, gradientCalls(t, 3, training.BackwardTwoPass, []int{2, 2}), "for every microbatch")
}
