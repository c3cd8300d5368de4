package train_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/training"
	"psim/exec/backend"
	"psim/exec/exectest"
	"psim/exec/run"
	"psim/exec/train"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// gradientCalls counts, by rank, the programs that make gradients in a step of a VGG that
// is cut by network.VGG16Split.
func gradientCalls(t *testing.T, workers int, backward string, samples []int) []int {
	n := exectest.Preset(t, "vgg-mini-pipeline")
	w := exectest.Spread{Schedule: "gpipe", Ranks: workers, Replicas: 1, Backward: backward}.Workload(t, n, samples)
	var err error
	w.Layers, err = models.VGG16Split(workers)
	require.NoError(t, err)
	j := exectest.Even{Schedule: "gpipe", Ranks: workers, Samples: samples}.Job(t, n)
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
	devices, err := backend.Open(workers, exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	trainer, err := train.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	_, _, err = trainer.Step(context.Background(), exectest.Batches(t, n, 4, 1)[0], run.Options{})
	require.NoError(t, err)
	return trainer.Calls()
}

// Backwards layer by layer ask for gradients once for each layer of a partition; dropouts that
// are off do not count. In two passes they ask once more for every layer with parameters, like
// programs of torch.autograd.grad. A whole backward asks once.
func TestGradientCalls(t *testing.T) {
	for workers, perLayer := range map[int][]int{1: {11}, 2: {5, 6}, 3: {2, 3, 6}} {
		require.Equal(t, perLayer, gradientCalls(t, workers, training.BackwardPerLayer, []int{4}))
	}
	require.Equal(t, []int{1, 1, 1}, gradientCalls(t, 3, training.BackwardWhole, []int{4}))
	require.Equal(t, []int{4, 6, 9}, gradientCalls(t, 3, training.BackwardTwoPass, []int{4}))
	require.Equal(t, []int{8, 12, 18}, gradientCalls(t, 3, training.BackwardTwoPass, []int{2, 2}),
		"for every microbatch")
}
