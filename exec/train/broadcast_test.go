package train_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
	"psim/exec/exectest"
	"psim/exec/run"
	"psim/exec/train"
)

// Replicas begin with different weights, and train like the unsplit run because they first get
// those of the first replica. That needs no memory.
func TestBroadcastWeights(t *testing.T) {
	const samples, steps = 12, 3
	n := exectest.MiniMLP(t)
	all := exectest.Batches(t, n, samples, steps)
	want, wantLosses := trainSteps(t, exectest.Unsplit(t, n, samples), all, 0)
	for _, m := range []exectest.Spread{
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Broadcast: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 3, Bucket: 3000, Overlap: true, Broadcast: true},
		{Schedule: "1f1b", Ranks: 2, Replicas: 2, Broadcast: true},
		{Schedule: "chimera", Ranks: 2, Replicas: 2, Bucket: 2000, Overlap: true, Broadcast: true},
	} {
		t.Run(m.String(), func(t *testing.T) {
			sizes := []int{samples / m.Replicas / 2, samples / m.Replicas / 2}
			j := m.Job(t, n, sizes)
			got, losses := trainSteps(t, j, all, 7)
			require.Less(t, difference(t, want, got), 1e-5)
			require.InDeltaSlice(t, wantLosses, losses, 1e-4)
			predicted, measured := ledgers(t, m, n, sizes)
			require.Equal(t, predicted.Persistent, measured.Persistent)
			require.Equal(t, exectest.Peaks(predicted), exectest.Peaks(measured))
			beginsApart(t, j)
		})
	}
}

// beginsApart checks that the replicas of a trainer have different weights before the first
// step, and equal ones after it.
func beginsApart(t *testing.T, j train.Job) {
	devices, err := backend.Open(j.Graph.Ranks(), exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	trainer, err := train.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	weights := func() (first, second map[string][]float32) {
		first, err := trainer.Parameters(0)
		require.NoError(t, err)
		second, err = trainer.Parameters(1)
		require.NoError(t, err)
		return first, second
	}
	first, second := weights()
	require.NotEqual(t, first, second)
	_, _, err = trainer.Step(context.Background(), exectest.Batches(t, j.Network, int(j.Total()), 1)[0], run.Options{})
	require.NoError(t, err)
	first, second = weights()
	require.Equal(t, first, second)
}
