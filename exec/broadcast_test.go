package exec_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec"
)

// Replicas begin with weights of their own, and train as the unsplit run because they
// get the first one's before anything else; nothing of that needs memory.
func TestBroadcastWeights(t *testing.T) {
	const samples, steps = 12, 3
	n := miniMLP(t)
	all := batches(t, n, samples, steps)
	want, wantLosses := train(t, job(t, n, "gpipe", 1, []int{samples}, false), all, 0)
	for _, m := range []mode{
		{schedule: "ddp", ranks: 1, replicas: 2, broadcast: true}, {schedule: "ddp", ranks: 1, replicas: 3, bucket: 3000, overlap: true, broadcast: true},
		{schedule: "1f1b", ranks: 2, replicas: 2, broadcast: true}, {schedule: "chimera", ranks: 2, replicas: 2, bucket: 2000, overlap: true, broadcast: true},
	} {
		t.Run(m.String(), func(t *testing.T) {
			sizes := []int{samples / m.replicas / 2, samples / m.replicas / 2}
			j := m.job(t, n, sizes)
			got, losses := train(t, j, all, 7)
			require.Less(t, difference(t, want, got), 1e-5)
			require.InDeltaSlice(t, wantLosses, losses, 1e-4)
			predicted, measured := ledgers(t, m, n, sizes)
			require.Equal(t, predicted.Persistent, measured.Persistent)
			require.Equal(t, peaks(predicted), peaks(measured))
			beginsApart(t, j)
		})
	}
}

// beginsApart wants the replicas of a trainer to have different weights before the first
// step, and the same after it.
func beginsApart(t *testing.T, j exec.Job) {
	devices, err := exec.OpenDevices(j.Graph.Ranks(), exec.DeviceOptions{Oversubscribe: true})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(j, devices)
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
	_, _, err = trainer.Step(context.Background(), batches(t, j.Network, int(j.Total()), 1)[0], exec.RunOptions{})
	require.NoError(t, err)
	first, second = weights()
	require.Equal(t, first, second)
}
