package train_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/exectest"
	"psim/exec/run"
	"psim/exec/train"
	"psim/schedules/graph"
)

// trainSteps runs the batches and returns the parameters and losses.
func trainSteps(t testing.TB, j train.Job, batches []data.StepBatch, shuffle uint64) (map[string][]float32, []float64) {
	t.Helper()
	exectest.ShuffleStreams(j.Graph, shuffle)
	devices, err := backend.Open(j.Graph.Ranks(), exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	trainer, err := train.NewTrainer(j, devices)
	require.NoError(t, err)
	var losses []float64
	for _, b := range batches {
		trace, loss, err := trainer.Step(context.Background(), b, run.Options{})
		require.NoError(t, err)
		exectest.CheckRules(t, trace)
		losses = append(losses, loss)
	}
	parameters, err := trainer.Parameters(j.Graph.Shape.Replicas - 1)
	require.NoError(t, err)
	trainer.Close()
	for _, d := range devices {
		require.Zero(t, d.Bytes(), "tensors are left on a device")
	}
	return parameters, losses
}

func difference(t testing.TB, a, b map[string][]float32) float64 {
	require.Equal(t, len(a), len(b))
	worst := 0.0
	for name := range a {
		require.Equal(t, len(a[name]), len(b[name]), name)
		for i := range a[name] {
			worst = max(worst, math.Abs(float64(a[name][i]-b[name][i])))
		}
	}
	return worst
}

// Every schedule, split and number of microbatches, including a smaller last one, trains to the
// weights of the unsplit run.
func TestSameWeightsAsUnsplit(t *testing.T) {
	for kind, n := range map[string]network.Network{
		"gpt": exectest.MiniGPT(t), "mlp": exectest.MiniMLP(t), "vgg": exectest.Preset(t, "vgg-mini-pipeline"),
	} {
		if testing.Short() && kind != "mlp" {
			continue // only one network goes through all of it
		}
		const samples, steps = 7, 5
		all := exectest.Batches(t, n, samples, steps)
		want, wantLosses := trainSteps(t, exectest.Unsplit(t, n, samples), all, 0)
		require.Less(t, wantLosses[steps-1], wantLosses[0], "the loss falls")
		for _, name := range []string{"model-parallel", "gpipe", "torchgpipe", "1f1b"} {
			for _, ranks := range []int{1, 2, 3} {
				for _, split := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%d ranks/split %v", kind, name, ranks, split), func(t *testing.T) {
						even := exectest.Even{Schedule: name, Ranks: ranks, Samples: []int{2, 2, 2, 1}, Split: split}
						got, losses := trainSteps(t, even.Job(t, n), all, 0)
						require.Less(t, difference(t, want, got), 1e-5)
						require.InDeltaSlice(t, wantLosses, losses, 1e-4)
					})
				}
			}
		}
	}
}

// The order in which goroutines start does not change a bit.
func TestShuffledStart(t *testing.T) {
	n := exectest.MiniMLP(t)
	j, all := exectest.Even{Schedule: "1f1b", Ranks: 3, Samples: []int{2, 2, 2}}.Job(t, n), exectest.Batches(t, n, 6, 2)
	want, _ := trainSteps(t, j, all, 0)
	repeats := uint64(200)
	if testing.Short() {
		repeats = 20
	}
	for seed := range repeats {
		got, _ := trainSteps(t, j, all, seed)
		require.Equal(t, want, got)
	}
}

func TestRefusedJobs(t *testing.T) {
	devices, err := backend.Open(2, exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	refuse := func(change func(*train.Job), message string) {
		t.Helper()
		j := exectest.Even{Schedule: "gpipe", Ranks: 2, Samples: []int{1, 1}}.Job(t, exectest.MiniMLP(t))
		change(&j)
		_, err := train.NewTrainer(j, devices)
		require.ErrorContains(t, err, message)
	}
	replan := func(j *train.Job, change func(*stages.Workload)) {
		w := j.Workload
		change(&w)
		j.Staged = w.Staged()
	}
	refuse(func(j *train.Job) { replan(j, func(w *stages.Workload) { w.Layers = []int{1, 1} }) },
		"a split of 2 layers for a network of 4")
	refuse(func(j *train.Job) { replan(j, func(w *stages.Workload) { w.Layers = []int{4} }) },
		"a split into 1 stages for a graph of 2")
	refuse(func(j *train.Job) { replan(j, func(w *stages.Workload) { w.Samples = []int64{2} }) },
		"1 sizes for 2 microbatches")
	refuse(func(j *train.Job) { j.Graph = exectest.Wired(t, "gpipe", graph.Shape{Ranks: 3, Microbatches: 2}) },
		"2 devices for a graph of 3 ranks")
	refuse(func(j *train.Job) { j.Optimizer.LearningRate = -1 }, "learning")
	refuse(func(j *train.Job) {
		n, err := models.Model{Family: "gpt", Layers: 2, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8}.Network()
		require.NoError(t, err)
		*j = exectest.Even{Schedule: "gpipe", Ranks: 2, Samples: []int{1}}.Job(t, n)
	}, "wte.weight is used by several ranks, and the graph does not sum its gradients")

	j := exectest.Even{Schedule: "gpipe", Ranks: 2, Samples: []int{1, 1}}.Job(t, exectest.MiniMLP(t))
	trainer, err := train.NewTrainer(j, devices)
	require.NoError(t, err)
	_, _, err = trainer.Step(context.Background(),
		data.StepBatch{Numbers: make([]float32, 5), Targets: make([]int32, 2)}, run.Options{})
	require.EqualError(t, err, "a batch of 5 inputs and 2 targets for 2 samples of 12 and 1")
	trainer.Close()
}

// A step that is cancelled frees what it has made.
func TestCancelledStep(t *testing.T) {
	n := exectest.MiniMLP(t)
	devices, err := backend.Open(2, exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	j := exectest.Even{Schedule: "1f1b", Ranks: 2, Samples: []int{1, 1}, Split: true}.Job(t, n)
	trainer, err := train.NewTrainer(j, devices)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err = trainer.Step(ctx, exectest.Batches(t, n, 2, 1)[0], run.Options{})
	require.ErrorIs(t, err, context.Canceled)
	trainer.Close()
	for _, d := range devices {
		require.Zero(t, d.Bytes())
	}
}
