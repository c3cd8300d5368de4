package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/exectest"
	"psim/exec/kernels"
	"psim/exec/measure"
	"psim/exec/run"
	"psim/exec/train"
)

// held is how many samples are held out. With four in a step, their last batch is not full.
const held = 7

// lossesBefore trains the unsplit model on the batch of a source that repeats it, and then on
// the samples that are held out. It returns the mean of the losses before that step.
func lossesBefore(t *testing.T, n network.Network, steps int) float64 {
	source, err := data.NewSource(data.Options{Validation: held}, n, []int64{4}, max(1, steps))
	require.NoError(t, err)
	devices, err := backend.Open(1, exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	trainer, err := train.NewTrainer(exectest.Unsplit(t, n, 4), devices)
	require.NoError(t, err)
	defer trainer.Close()
	sum, counted := 0.0, 0
	for _, b := range source.HeldOut() {
		require.NoError(t, trainer.Reset())
		for step := range steps {
			_, _, err := trainer.Step(t.Context(), source.Batch(step), run.Options{})
			require.NoError(t, err)
		}
		_, loss, err := trainer.Step(t.Context(), b, run.Options{})
		require.NoError(t, err)
		targets := 0
		for _, target := range b.Targets {
			if target >= 0 {
				targets++
			}
		}
		sum, counted = sum+loss*float64(targets), counted+targets
	}
	require.Equal(t, held*len(source.HeldOut()[0].Targets)/4, counted)
	return sum / float64(counted)
}

// validate trains three steps, and evaluates after them.
func validate(t *testing.T, j train.Job, o train.Options) []float64 {
	m, err := measure.Job(t.Context(), j, measure.Options{
		Devices: exectest.Options(), Data: data.Options{Validation: held, Samples: 4}, Train: o,
	})
	require.NoError(t, err)
	require.Equal(t, 4, m.Samples, "that are trained on")
	return m.Record.Validation
}

// The loss on samples that are held out equals that of the unsplit model, however the training
// is spread.
func TestValidationAsUnsplit(t *testing.T) {
	n := exectest.TiedGPT(t)
	want := lossesBefore(t, n, 3)
	require.Greater(t, lossesBefore(t, n, 0)-want, 1e-3, "training helps")
	for i, m := range []exectest.Spread{
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Overlap: true, Bucket: 3000},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Gloo: true, Overlap: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, PerTensor: true, Overlap: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Simplified: true},
		{Schedule: "gpipe", Ranks: 2, Replicas: 2},
		{Schedule: "1f1b", Ranks: 3, Replicas: 1, Recompute: kernels.RepeatLayer},
		{Schedule: "interleaved-1f1b", Ranks: 2, Replicas: 1, Virtual: 2}, {Schedule: "zbv", Ranks: 2, Replicas: 1},
		{Schedule: "chimera", Ranks: 2, Replicas: 1},
		{Schedule: "1f1b", Ranks: 2, Replicas: 2, Loop: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Loop: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 4, Sharded: true, Group: 2, Overlap: true},
	} {
		if testing.Short() && i > 1 {
			break // under the race detector
		}
		t.Run(m.String(), func(t *testing.T) {
			j := m.Job(t, n, []int{1, 1, 1, 1}[:4/m.Replicas])
			got := validate(t, j, train.Options{Warmup: 1, Steps: 2})
			require.Len(t, got, 1)
			require.InDelta(t, want, got[0], 1e-5)
			first, second := validate(t, j, train.Options{Steps: 1}), validate(t, j, train.Options{Steps: 2})
			require.Equal(t, append(first, second[0], got[0]),
				validate(t, j, train.Options{Warmup: 1, Epochs: 2}), "after every epoch of one step")
		})
	}
}

// Evaluation uses no dropout and does not change what is trained, also with stashed weights.
func TestValidationWithoutDropout(t *testing.T) {
	for _, m := range []exectest.Spread{
		{Schedule: "1f1b", Ranks: 2, Replicas: 1}, {Schedule: "pipedream", Ranks: 2, Replicas: 1},
	} {
		var losses [2][]float64
		for i, dropout := range []float64{0, 0.4} {
			free := false
			n, err := models.Model{Family: "gpt", Layers: 2, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8,
				Tied: &free, Dropout: dropout}.Network()
			require.NoError(t, err)
			j := m.Job(t, n, []int{2, 2})
			j.Optimizer.LearningRate = 1e-30 // so that both keep their first weights
			losses[i] = validate(t, j, train.Options{Warmup: 1, Epochs: 2})
			require.Equal(t, losses[i][0], losses[i][2])
		}
		require.Equal(t, losses[0], losses[1])
	}
	j := exectest.Spread{Schedule: "gpipe", Ranks: 2, Replicas: 1}.Job(t, exectest.DroppingGPT(t, 0.4), []int{2, 2})
	m, err := measure.Job(t.Context(), j, measure.Options{
		Devices: exectest.Options(), Data: data.Options{Validation: held, Samples: 8},
		Train: train.Options{Warmup: 1, Epochs: 2}, Checks: measure.CheckNames(),
	})
	require.NoError(t, err)
	require.NoError(t, m.Verdict.Err())
	require.Len(t, m.Record.Validation, 3)
}
