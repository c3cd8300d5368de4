package exec_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
	"psim/exec"
	"psim/exec/programs"
)

// recorded trains a job with stashed weights for real, and keeps what there is to
// compare.
func recorded(t *testing.T, j exec.Job, all []exec.Batch, shuffle uint64) *exec.Record {
	shuffleStreams(j.Graph, shuffle)
	devices, err := exec.OpenDevices(j.Graph.Ranks(), exec.DeviceOptions{Oversubscribe: true})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(j, devices)
	require.NoError(t, err)
	r := &exec.Record{}
	for _, b := range all {
		trace, loss, err := trainer.Step(context.Background(), b, exec.RunOptions{})
		require.NoError(t, err)
		checkRules(t, trace)
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
func replayed(t *testing.T, j exec.Job, all []exec.Batch) *exec.Record {
	devices, err := exec.OpenDevices(1, exec.DeviceOptions{})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	r, err := exec.Replay(context.Background(), j, devices[0], func(n int) exec.Batch { return all[n] }, exec.TrainOptions{Steps: len(all)})
	require.NoError(t, err)
	require.Zero(t, devices[0].Bytes(), "tensors are left on a device")
	return r
}

// A pipeline with stashed weights trains to the weights of the serial replay, with
// every optimizer and also where the last microbatch is smaller. On several ranks
// these are not the weights of a loop without delays, which is the replay of one
// stage.
func TestPipedreamIsItsReplay(t *testing.T) {
	for kind, n := range map[string]network.Network{"gpt": miniGPT(t), "gpt dropout": droppingGPT(t, 0.1), "mlp": miniMLP(t)} {
		if testing.Short() && kind != "mlp" {
			continue // one network goes through all of it
		}
		all := batches(t, n, 11, 4)
		for _, ranks := range []int{1, 2, 3} {
			for _, name := range []string{"adamw", "sgd-momentum"} {
				for _, samples := range [][]int{{2, 2, 2, 2, 2, 1}, {6, 5}, {11}} {
					if kind == "gpt dropout" && ranks > 1 {
						continue // its head is its embedding
					}
					t.Run(fmt.Sprint(kind, "/", ranks, "/", name, "/", samples), func(t *testing.T) {
						m := mode{schedule: "pipedream", ranks: ranks, replicas: 1}
						j := m.job(t, n, samples)
						j.Optimizer = programs.DefaultOptimizer(name)
						j.Optimizer.LearningRate = 0.01
						got, want := recorded(t, j, all, 5), replayed(t, j, all)
						require.Less(t, difference(t, want.Parameters[0], got.Parameters[0]), 1e-5)
						require.InDeltaSlice(t, want.Losses, got.Losses, 1e-4)
						require.Less(t, got.Losses[3], got.Losses[0], "the loss falls")
						one := mode{schedule: "pipedream", ranks: 1, replicas: 1}.job(t, n, samples)
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

// A single stage has no delay: microbatches are batches that are trained one after
// another, as gpipe would with one microbatch each.
func TestReplayOfOneStage(t *testing.T) {
	n := miniMLP(t)
	whole, samples := batches(t, n, 6, 1)[0], []int{2, 2, 2}
	var apart []exec.Batch
	features := len(whole.Numbers) / 6
	for m := range samples {
		apart = append(apart, exec.Batch{Numbers: whole.Numbers[2*m*features : 2*(m+1)*features], Targets: whole.Targets[2*m : 2*(m+1)]})
	}
	want, losses := train(t, job(t, n, "gpipe", 1, []int{2}, false), apart, 0)
	got := replayed(t, mode{schedule: "pipedream", ranks: 1, replicas: 1}.job(t, n, samples), []exec.Batch{whole})
	require.Equal(t, want, got.Parameters[0])
	require.InDelta(t, (losses[0]+losses[1]+losses[2])/3, got.Losses[0], 1e-6)
}

// Predicted memory is the devices' with the versions of the weights in it, to the
// byte.
func TestStashedMemoryIsTheLedger(t *testing.T) {
	for kind, n := range map[string]network.Network{"gpt": miniGPT(t), "mlp": miniMLP(t)} {
		for _, ranks := range []int{1, 2, 3, 4} {
			t.Run(fmt.Sprint(kind, ranks), func(t *testing.T) {
				predicted, measured := ledgers(t, mode{schedule: "pipedream", ranks: ranks, replicas: 1}, n, []int{2, 2, 2, 2})
				require.Equal(t, predicted.Persistent, measured.Persistent)
				require.Equal(t, peaks(predicted), peaks(measured))
			})
		}
	}
}

// A step that is cut off anywhere leaves no version of the weights behind.
func TestStashedWeightsAreFreed(t *testing.T) {
	devices, err := exec.OpenDevices(2, exec.DeviceOptions{Oversubscribe: true})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	n := miniMLP(t)
	j, b := mode{schedule: "pipedream", ranks: 2, replicas: 1}.job(t, n, []int{1, 1, 1, 1}), batches(t, n, 4, 1)[0]
	for i := range 20 {
		trainer, err := exec.NewTrainer(j, devices)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*100*time.Microsecond)
		_, _, err = trainer.Step(ctx, b, exec.RunOptions{})
		cancel()
		trainer.Close()
		for _, d := range devices {
			require.Zero(t, d.Bytes(), "after %v", err)
		}
	}
}
