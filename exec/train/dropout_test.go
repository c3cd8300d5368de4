package train_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/training"
	"psim/exec/backend"
	"psim/exec/exectest"
	"psim/exec/kernels"
	"psim/exec/run"
	"psim/exec/train"
)

// With dropout, a split run trains to the weights of the unsplit one, with whole and halved
// backwards, recomputation and replicas. Without dropout it trains to other weights.
func TestDropoutTrainsAsUnsplit(t *testing.T) {
	n := exectest.DroppingGPT(t, 0.2)
	untied := false
	free, err := models.Model{Family: "gpt", Layers: 2, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8,
		Tied: &untied, Dropout: 0.2}.Network()
	require.NoError(t, err)
	const samples, steps = 8, 4
	all := exectest.Batches(t, n, samples, steps)
	want, wantLosses := trainSteps(t, exectest.Unsplit(t, n, samples), all, 0)
	plain, _ := trainSteps(t, exectest.Unsplit(t, exectest.DroppingGPT(t, 0), samples), all, 0)
	require.Greater(t, difference(t, want, plain), 1e-4)

	wantFree, freeLosses := trainSteps(t, exectest.Unsplit(t, free, samples), all, 0)
	for _, recompute := range []kernels.Recompute{kernels.SaveAll, kernels.RepeatLayer, kernels.RepeatStage} {
		for _, split := range []bool{false, true} {
			t.Run(fmt.Sprintf("recompute %d/split %v", recompute, split), func(t *testing.T) {
				j := exectest.Even{Schedule: "1f1b", Ranks: 2, Samples: []int{3, 3, 2}, Split: split}.Job(t, free)
				j.Recompute = recompute
				got, losses := trainSteps(t, j, all, 5)
				require.Less(t, difference(t, wantFree, got), 1e-5)
				require.InDeltaSlice(t, freeLosses, losses, 1e-4)
			})
		}
	}
	for _, m := range []exectest.Spread{
		{Schedule: "gpipe", Ranks: 3, Replicas: 1, AtHead: true}, {Schedule: "gpipe", Ranks: 2, Replicas: 2},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Bucket: 3000, Overlap: true, Backward: training.BackwardPerLayer,
			Recompute: kernels.RepeatLayer},
	} {
		t.Run(m.String(), func(t *testing.T) {
			sizes := []int{samples / m.Replicas / 2, samples / m.Replicas / 2}
			got, losses := trainSteps(t, m.Job(t, n, sizes), all, 5)
			require.Less(t, difference(t, want, got), 1e-5)
			require.InDeltaSlice(t, wantLosses, losses, 1e-4)
		})
	}
}

// Every step draws new masks, and after a Reset the same ones again.
func TestDropoutOfSteps(t *testing.T) {
	j := exectest.Even{Schedule: "gpipe", Ranks: 1, Samples: []int{2, 1}}.Job(t, exectest.DroppingGPT(t, 0.2))
	j.Optimizer.LearningRate = 1e-30
	devices, err := backend.Open(1, exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	trainer, err := train.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	var losses []float64
	for step := range 4 {
		if step == 2 {
			require.NoError(t, trainer.Reset())
		}
		_, loss, err := trainer.Step(context.Background(), exectest.Batches(t, j.Network, 3, 1)[0], run.Options{})
		require.NoError(t, err)
		losses = append(losses, loss)
	}
	require.NotEqual(t, losses[0], losses[1])
	require.Equal(t, losses[:2], losses[2:])
}
