package exec_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/exec"
	"psim/exec/programs"
)

// droppingGPT is tiedGPT with dropout.
func droppingGPT(t testing.TB, rate float64) network.Network {
	n, err := models.Model{Family: "gpt", Layers: 3, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8, Dropout: rate}.Network()
	require.NoError(t, err)
	return n
}

// With dropout a split run trains to the weights of the unsplit one all the
// same, with whole and halved backwards, recomputation and replicas; and not
// to those without dropout.
func TestDropoutTrainsAsUnsplit(t *testing.T) {
	n := droppingGPT(t, 0.2)
	untied := false
	free, err := models.Model{Family: "gpt", Layers: 2, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8, Tied: &untied, Dropout: 0.2}.Network()
	require.NoError(t, err)
	const samples, steps = 8, 4
	all := batches(t, n, samples, steps)
	want, wantLosses := train(t, job(t, n, "gpipe", 1, []int{samples}, false), all, 0)
	plain, _ := train(t, job(t, droppingGPT(t, 0), "gpipe", 1, []int{samples}, false), all, 0)
	require.Greater(t, difference(t, want, plain), 1e-4)

	wantFree, freeLosses := train(t, job(t, free, "gpipe", 1, []int{samples}, false), all, 0)
	for _, recompute := range []programs.Recompute{programs.SaveAll, programs.RepeatLayer, programs.RepeatStage} {
		for _, split := range []bool{false, true} {
			t.Run(fmt.Sprintf("recompute %d/split %v", recompute, split), func(t *testing.T) {
				j := job(t, free, "1f1b", 2, []int{3, 3, 2}, split)
				j.Recompute = recompute
				got, losses := train(t, j, all, 5)
				require.Less(t, difference(t, wantFree, got), 1e-5)
				require.InDeltaSlice(t, freeLosses, losses, 1e-4)
			})
		}
	}
	for _, m := range []mode{
		{schedule: "gpipe", ranks: 3, replicas: 1, atHead: true}, {schedule: "gpipe", ranks: 2, replicas: 2},
		{schedule: "ddp", ranks: 1, replicas: 2, bucket: 3000, overlap: true, backward: training.BackwardPerLayer, recompute: programs.RepeatLayer},
	} {
		t.Run(m.String(), func(t *testing.T) {
			sizes := []int{samples / m.replicas / 2, samples / m.replicas / 2}
			got, losses := train(t, m.job(t, n, sizes), all, 5)
			require.Less(t, difference(t, want, got), 1e-5)
			require.InDeltaSlice(t, wantLosses, losses, 1e-4)
		})
	}
}

// Every step draws anew, and after a Reset the same again.
func TestDropoutOfSteps(t *testing.T) {
	j := job(t, droppingGPT(t, 0.2), "gpipe", 1, []int{2, 1}, false)
	j.Optimizer.LearningRate = 1e-30
	devices, err := exec.OpenDevices(1, exec.DeviceOptions{})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	var losses []float64
	for step := range 4 {
		if step == 2 {
			require.NoError(t, trainer.Reset())
		}
		_, loss, err := trainer.Step(context.Background(), batches(t, j.Network, 3, 1)[0], exec.RunOptions{})
		require.NoError(t, err)
		losses = append(losses, loss)
	}
	require.NotEqual(t, losses[0], losses[1])
	require.Equal(t, losses[:2], losses[2:])
}
