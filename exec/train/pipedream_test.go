package train_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/exectest"
	"psim/exec/kernels"
	"psim/exec/run"
	"psim/exec/train"
)

// recorded trains a job with stashed weights, and keeps what can be compared.
func recorded(t *testing.T, j train.Job, all []data.StepBatch, shuffle uint64) *train.Record {
	exectest.ShuffleStreams(j.Graph, shuffle)
	devices, err := backend.Open(j.Graph.Ranks(), exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	trainer, err := train.NewTrainer(j, devices)
	require.NoError(t, err)
	r := &train.Record{}
	for _, b := range all {
		trace, loss, err := trainer.Step(context.Background(), b, run.Options{})
		require.NoError(t, err)
		exectest.CheckRules(t, trace)
		r.Losses = append(r.Losses, loss)
	}
	parameters, err := trainer.Parameters(0)
	require.NoError(t, err)
	r.Parameters = []map[string][]float32{parameters}
	trainer.Close()
	for _, d := range devices {
		require.Zero(t, d.Bytes(), "tensors are left on a device")
	}
	return r
}

// replayed trains the same microbatches serially.
func replayed(t *testing.T, j train.Job, all []data.StepBatch) *train.Record {
	devices, err := backend.Open(1, exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	r, err := train.Replay{
		Job: j, Device: devices[0], Batch: func(n int) data.StepBatch { return all[n] },
		Options: train.Options{Steps: len(all)},
	}.Run(context.Background())
	require.NoError(t, err)
	require.Zero(t, devices[0].Bytes(), "tensors are left on a device")
	return r
}

// A pipeline with stashed weights trains to the weights of the serial replay, with every
// optimizer, and also if the last microbatch is smaller. On several ranks these differ from the
// weights of a loop without delays, which is the replay of one stage.
func TestPipedreamIsItsReplay(t *testing.T) {
	for kind, n := range map[string]network.Network{
		"gpt": exectest.MiniGPT(t), "gpt dropout": exectest.DroppingGPT(t, 0.1), "mlp": exectest.MiniMLP(t),
	} {
		if testing.Short() && kind != "mlp" {
			continue // only one network goes through all of it
		}
		all := exectest.Batches(t, n, 11, 4)
		for _, ranks := range []int{1, 2, 3} {
			for _, name := range []string{"adamw", "sgd-momentum"} {
				for _, samples := range [][]int{{2, 2, 2, 2, 2, 1}, {6, 5}, {11}} {
					if kind == "gpt dropout" && ranks > 1 {
						continue // its head is its embedding
					}
					t.Run(fmt.Sprint(kind, "/", ranks, "/", name, "/", samples), func(t *testing.T) {
						m := exectest.Spread{Schedule: "pipedream", Ranks: ranks, Replicas: 1}
						j := m.Job(t, n, samples)
						j.Optimizer = kernels.DefaultOptimizer(name)
						j.Optimizer.LearningRate = 0.01
						got, want := recorded(t, j, all, 5), replayed(t, j, all)
						require.Less(t, difference(t, want.Parameters[0], got.Parameters[0]), 1e-5)
						require.InDeltaSlice(t, want.Losses, got.Losses, 1e-4)
						require.Less(t, got.Losses[3], got.Losses[0], "the loss falls")
						one := exectest.Spread{Schedule: "pipedream", Ranks: 1, Replicas: 1}.Job(t, n, samples)
						one.Optimizer = j.Optimizer
						undelayed := difference(t, replayed(t, one, all).Parameters[0], got.Parameters[0])
						if ranks > 1 && len(samples) > 1 {
							require.Greater(t, undelayed, 1e-4)
						} else {
							require.Less(t, undelayed, 1e-5)
						}
					})
				}
			}
		}
	}
}

// A single stage has no delay: microbatches are batches that are trained one after another, as
// gpipe would train them with one microbatch each.
func TestReplayOfOneStage(t *testing.T) {
	n := exectest.MiniMLP(t)
	whole, samples := exectest.Batches(t, n, 6, 1)[0], []int{2, 2, 2}
	var apart []data.StepBatch
	features := len(whole.Numbers) / 6
	for m := range samples {
		apart = append(apart, data.StepBatch{Numbers: whole.Numbers[2*m*features : 2*(m+1)*features],
			Targets: whole.Targets[2*m : 2*(m+1)]})
	}
	want, losses := trainSteps(t, exectest.Unsplit(t, n, 2), apart, 0)
	got := replayed(t, exectest.Spread{Schedule: "pipedream", Ranks: 1, Replicas: 1}.Job(t, n, samples),
		[]data.StepBatch{whole})
	require.Equal(t, want, got.Parameters[0])
	require.InDelta(t, (losses[0]+losses[1]+losses[2])/3, got.Losses[0], 1e-6)
}

// The predicted memory equals the devices', including the versions of the weights, to the byte.
func TestStashedMemoryIsTheLedger(t *testing.T) {
	for kind, n := range map[string]network.Network{"gpt": exectest.MiniGPT(t), "mlp": exectest.MiniMLP(t)} {
		for _, ranks := range []int{1, 2, 3, 4} {
			t.Run(fmt.Sprint(kind, ranks), func(t *testing.T) {
				predicted, measured := ledgers(t, exectest.Spread{Schedule: "pipedream", Ranks: ranks, Replicas: 1}, n,
					[]int{2, 2, 2, 2})
				require.Equal(t, predicted.Persistent, measured.Persistent)
				require.Equal(t, exectest.Peaks(predicted), exectest.Peaks(measured))
			})
		}
	}
}

// A step that ends early leaves no version of the weights behind.
func TestStashedWeightsAreFreed(t *testing.T) {
	devices, err := backend.Open(2, exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	n := exectest.MiniMLP(t)
	j, b := exectest.Spread{Schedule: "pipedream", Ranks: 2, Replicas: 1}.Job(t, n, []int{1, 1, 1, 1}),
		exectest.Batches(t, n, 4, 1)[0]
	for i := range 20 {
		trainer, err := train.NewTrainer(j, devices)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*100*time.Microsecond)
		_, _, err = trainer.Step(ctx, b, run.Options{})
		cancel()
		trainer.Close()
		for _, d := range devices {
			require.Zero(t, d.Bytes(), "after %v", err)
		}
	}
}
