package exec_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/exec"
	"psim/exec/data"
	"psim/exec/programs"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/partition"
	"psim/schedules/wiring"
)

// miniGPT is a GPT-2 of two blocks whose head is a matrix of its own.
func miniGPT(t testing.TB) network.Network {
	untied := false
	n, err := models.Model{Family: "gpt", Layers: 2, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8, Tied: &untied}.Network()
	require.NoError(t, err)
	return n
}

func miniMLP(t testing.TB) network.Network {
	n, err := models.Model{Family: "mlp", Layers: 4, Hidden: 12}.Network()
	require.NoError(t, err)
	return n
}

func preset(t testing.TB, name string) network.Network {
	n, err := models.Model{Preset: name}.Network()
	require.NoError(t, err)
	return n
}

// batches makes the same data for every run of a network.
func batches(t testing.TB, n network.Network, samples, count int) []exec.Batch {
	var list []exec.Batch
	for range count {
		var indices []int
		for s := range samples {
			indices = append(indices, s) // the same in every step, so that the loss must fall
		}
		if n.Layers[0].Kind == network.KindEmbedding {
			set, err := data.MakeTokens(data.TokenRecipe{Samples: samples, Sequence: n.TokensPerSample, Vocabulary: n.Layers[0].Params[0].Shape[0], Seed: 1})
			require.NoError(t, err)
			inputs, targets := set.Batch(indices)
			ignoreSome(targets, n.TokensPerSample)
			list = append(list, exec.Batch{Tokens: inputs, Targets: targets})
			continue
		}
		features, last := int(n.Layers[0].Input.Elements()), n.Layers[len(n.Layers)-1].Output
		set, err := data.MakeImages(data.ImageRecipe{Samples: samples, Channels: features, Height: 1, Width: 1, Classes: last[len(last)-1], Seed: 1})
		require.NoError(t, err)
		pixels, labels := set.Batch(indices)
		list = append(list, exec.Batch{Numbers: pixels, Targets: labels})
	}
	return list
}

// ignoreSome leaves to every sample another number of targets that count, to some none.
func ignoreSome(targets []int32, each int) {
	for s := 0; s*each < len(targets); s++ {
		for k := range s * s % (each + 1) {
			targets[s*each+k] = data.Ignored
		}
	}
}

// job cuts a network evenly for an order; split replaces every B by I and W.
func job(t testing.TB, n network.Network, name string, ranks int, samples []int, split bool) exec.Job {
	s, err := schedules.Find(name)
	require.NoError(t, err)
	shape := graph.Shape{Ranks: ranks, Microbatches: len(samples)}
	o, err := s.Order(shape, nil)
	require.NoError(t, err)
	if split {
		o = halves(o)
	}
	g, err := wiring.Pipeline{Name: name, Shape: shape, Order: o, Optimizer: true}.Graph()
	require.NoError(t, err)
	layers, err := partition.Equal(len(n.Layers), ranks)
	require.NoError(t, err)
	w := stages.Workload{Network: n, Layers: layers, Placement: graph.InOrder(ranks)}
	for _, m := range samples {
		w.Samples = append(w.Samples, int64(m))
	}
	return exec.Job{Graph: g, Staged: w.Staged(), Optimizer: programs.DefaultOptimizer("adamw"), Seed: 1390}
}

// halves runs I in the place of every B, and all W at the end.
func halves(o order.Order) order.Order {
	split := make(order.Order, len(o))
	for r, actions := range o {
		var later []order.Action
		for _, a := range actions {
			if a.Kind == graph.Backward {
				later = append(later, order.Action{Kind: graph.WeightGradient, Stage: a.Stage, Microbatch: a.Microbatch})
				a.Kind = graph.InputGradient
			}
			split[r] = append(split[r], a)
		}
		split[r] = append(split[r], later...)
	}
	return split
}

// train runs the batches and returns the parameters and losses.
func train(t testing.TB, j exec.Job, batches []exec.Batch, shuffle uint64) (map[string][]float32, []float64) {
	t.Helper()
	shuffleStreams(j.Graph, shuffle)
	devices, err := exec.OpenDevices(j.Graph.Ranks(), exec.DeviceOptions{Oversubscribe: true})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(j, devices)
	require.NoError(t, err)
	var losses []float64
	for _, b := range batches {
		trace, loss, err := trainer.Step(context.Background(), b, exec.RunOptions{})
		require.NoError(t, err)
		checkRules(t, trace)
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

// Every schedule, split and number of microbatches, a ragged last one among
// them, trains to the weights of the unsplit run.
func TestSameWeightsAsUnsplit(t *testing.T) {
	for kind, n := range map[string]network.Network{"gpt": miniGPT(t), "mlp": miniMLP(t), "vgg": preset(t, "vgg-mini-pipeline")} {
		if testing.Short() && kind != "mlp" {
			continue // one network goes through all of it
		}
		const samples, steps = 7, 5
		all := batches(t, n, samples, steps)
		want, wantLosses := train(t, job(t, n, "gpipe", 1, []int{samples}, false), all, 0)
		require.Less(t, wantLosses[steps-1], wantLosses[0], "the loss falls")
		for _, name := range []string{"model-parallel", "gpipe", "torchgpipe", "1f1b"} {
			for _, ranks := range []int{1, 2, 3} {
				for _, split := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%d ranks/split %v", kind, name, ranks, split), func(t *testing.T) {
						got, losses := train(t, job(t, n, name, ranks, []int{2, 2, 2, 1}, split), all, 0)
						require.Less(t, difference(t, want, got), 1e-5)
						require.InDeltaSlice(t, wantLosses, losses, 1e-4)
					})
				}
			}
		}
	}
}

// The goroutines' starting order does not change a bit.
func TestShuffledStart(t *testing.T) {
	n := miniMLP(t)
	j, all := job(t, n, "1f1b", 3, []int{2, 2, 2}, false), batches(t, n, 6, 2)
	want, _ := train(t, j, all, 0)
	repeats := uint64(200)
	if testing.Short() {
		repeats = 20
	}
	for seed := range repeats {
		got, _ := train(t, j, all, seed)
		require.Equal(t, want, got)
	}
}

func TestRefusedJobs(t *testing.T) {
	devices, err := exec.OpenDevices(2, exec.DeviceOptions{Oversubscribe: true})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	refuse := func(change func(*exec.Job), message string) {
		t.Helper()
		j := job(t, miniMLP(t), "gpipe", 2, []int{1, 1}, false)
		change(&j)
		_, err := exec.NewTrainer(j, devices)
		require.ErrorContains(t, err, message)
	}
	replan := func(j *exec.Job, change func(*stages.Workload)) {
		w := j.Workload
		change(&w)
		j.Staged = w.Staged()
	}
	refuse(func(j *exec.Job) { replan(j, func(w *stages.Workload) { w.Layers = []int{1, 1} }) }, "a split of 2 layers for a network of 4")
	refuse(func(j *exec.Job) { replan(j, func(w *stages.Workload) { w.Layers = []int{4} }) }, "a split into 1 stages for a graph of 2")
	refuse(func(j *exec.Job) { replan(j, func(w *stages.Workload) { w.Samples = []int64{2} }) }, "1 sizes for 2 microbatches")
	refuse(func(j *exec.Job) { j.Graph = pipeline(t, "gpipe", 3, 2, 1) }, "2 devices for a graph of 3 ranks")
	refuse(func(j *exec.Job) { j.Optimizer.LearningRate = -1 }, "learning")
	refuse(func(j *exec.Job) {
		n, err := models.Model{Family: "gpt", Layers: 2, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8}.Network()
		require.NoError(t, err)
		*j = job(t, n, "gpipe", 2, []int{1}, false)
	}, "wte.weight is used by several ranks, and the graph does not sum its gradients")

	trainer, err := exec.NewTrainer(job(t, miniMLP(t), "gpipe", 2, []int{1, 1}, false), devices)
	require.NoError(t, err)
	_, _, err = trainer.Step(context.Background(), exec.Batch{Numbers: make([]float32, 5), Targets: make([]int32, 2)}, exec.RunOptions{})
	require.EqualError(t, err, "a batch of 5 inputs and 2 targets for 2 samples of 12 and 1")
	trainer.Close()
}

// A step that is cancelled frees what it has made.
func TestCancelledStep(t *testing.T) {
	n := miniMLP(t)
	devices, err := exec.OpenDevices(2, exec.DeviceOptions{Oversubscribe: true})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(job(t, n, "1f1b", 2, []int{1, 1}, true), devices)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err = trainer.Step(ctx, batches(t, n, 2, 1)[0], exec.RunOptions{})
	require.ErrorIs(t, err, context.Canceled)
	trainer.Close()
	for _, d := range devices {
		require.Zero(t, d.Bytes())
	}
}
