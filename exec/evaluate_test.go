package exec_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/exec"
	"psim/exec/data"
	"psim/exec/programs"
)

// held is how many samples are held out: with four in a step, the last batch of them is
// not full.
const held = 7

// lossesBefore trains the unsplit model on the batch of a source that repeats it, and
// then on what is held out, of which the losses before that step are returned as one mean.
func lossesBefore(t *testing.T, n network.Network, steps int) float64 {
	source, err := exec.NewSource(exec.DataOptions{Validation: held}, n, []int64{4}, max(1, steps))
	require.NoError(t, err)
	devices, err := exec.OpenDevices(1, exec.DeviceOptions{})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(job(t, n, "gpipe", 1, []int{4}, false), devices)
	require.NoError(t, err)
	defer trainer.Close()
	sum, counted := 0.0, 0
	for _, b := range source.HeldOut() {
		require.NoError(t, trainer.Reset())
		for step := range steps {
			_, _, err := trainer.Step(t.Context(), source.Batch(step), exec.RunOptions{})
			require.NoError(t, err)
		}
		_, loss, err := trainer.Step(t.Context(), b, exec.RunOptions{})
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
func validate(t *testing.T, j exec.Job, o exec.TrainOptions) []float64 {
	m, err := exec.Measure(t.Context(), j, exec.MeasureOptions{
		Devices: exec.DeviceOptions{Oversubscribe: true}, Data: exec.DataOptions{Validation: held, Samples: 4}, TrainOptions: o,
	})
	require.NoError(t, err)
	require.Equal(t, 4, m.Samples, "that are trained on")
	return m.Record.Validation
}

// The loss on samples that are held out is that of the unsplit model, however the
// training is spread.
func TestValidationAsUnsplit(t *testing.T) {
	n := tiedGPT(t)
	want := lossesBefore(t, n, 3)
	require.Greater(t, lossesBefore(t, n, 0)-want, 1e-3, "training helps")
	for i, m := range []mode{
		{schedule: "ddp", ranks: 1, replicas: 2, overlap: true, bucket: 3000},
		{schedule: "ddp", ranks: 1, replicas: 2, sharded: true}, {schedule: "ddp", ranks: 1, replicas: 2, sharded: true, gloo: true, overlap: true},
		{schedule: "ddp", ranks: 1, replicas: 2, sharded: true, perTensor: true, overlap: true}, {schedule: "ddp", ranks: 1, replicas: 2, sharded: true, simplified: true},
		{schedule: "gpipe", ranks: 2, replicas: 2}, {schedule: "1f1b", ranks: 3, replicas: 1, recompute: programs.RepeatLayer},
		{schedule: "interleaved-1f1b", ranks: 2, replicas: 1, virtual: 2}, {schedule: "zbv", ranks: 2, replicas: 1}, {schedule: "chimera", ranks: 2, replicas: 1},
	} {
		if testing.Short() && i > 1 {
			break // under the race detector
		}
		t.Run(m.String(), func(t *testing.T) {
			j := m.job(t, n, []int{1, 1, 1, 1}[:4/m.replicas])
			got := validate(t, j, exec.TrainOptions{Warmup: 1, Steps: 2})
			require.Len(t, got, 1)
			require.InDelta(t, want, got[0], 1e-5)
			require.Equal(t, append(validate(t, j, exec.TrainOptions{Steps: 1}), validate(t, j, exec.TrainOptions{Steps: 2})[0], got[0]),
				validate(t, j, exec.TrainOptions{Warmup: 1, Epochs: 2}), "after every epoch of one step")
		})
	}
}

// Evaluation leaves dropout out, and what is trained as it is, with stashed weights too.
func TestValidationWithoutDropout(t *testing.T) {
	for _, m := range []mode{{schedule: "1f1b", ranks: 2, replicas: 1}, {schedule: "pipedream", ranks: 2, replicas: 1}} {
		var losses [2][]float64
		for i, dropout := range []float64{0, 0.4} {
			free := false
			n, err := models.Model{Family: "gpt", Layers: 2, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8, Tied: &free, Dropout: dropout}.Network()
			require.NoError(t, err)
			j := m.job(t, n, []int{2, 2})
			j.Optimizer.LearningRate = 1e-30 // so that both keep their first weights
			losses[i] = validate(t, j, exec.TrainOptions{Warmup: 1, Epochs: 2})
			require.Equal(t, losses[i][0], losses[i][2])
		}
		require.Equal(t, losses[0], losses[1])
	}
	m, err := exec.Measure(t.Context(), mode{schedule: "gpipe", ranks: 2, replicas: 1}.job(t, droppingGPT(t, 0.4), []int{2, 2}), exec.MeasureOptions{
		Devices: exec.DeviceOptions{Oversubscribe: true}, Data: exec.DataOptions{Validation: held, Samples: 8},
		TrainOptions: exec.TrainOptions{Warmup: 1, Epochs: 2}, Checks: exec.CheckNames(),
	})
	require.NoError(t, err)
	require.NoError(t, m.Verdict.Err())
	require.Len(t, m.Record.Validation, 3)
}

// Of files, what is held out is not trained on: CIFAR-10's test file, and the lines of
// pairs behind those to train on.
func TestHeldOut(t *testing.T) {
	n := pairsGPT(t)
	for _, steps := range []int{0, 2, 9} { // all, some and more than there are
		source, err := exec.NewSource(exec.DataOptions{Source: pairsFile(t), Validation: 5, Strided: true}, n, []int64{1, 1}, steps)
		require.NoError(t, err)
		trained := map[string]bool{}
		for step := range 9 {
			for i := range 2 {
				trained[fmt.Sprint(source.Batch(step).Tokens[16*i:16*(i+1)])] = true
			}
		}
		out := source.HeldOut()
		require.Len(t, out, 3)
		for _, b := range out {
			for i := range 2 {
				require.NotContains(t, trained, fmt.Sprint(b.Tokens[16*i:16*(i+1)]), steps)
			}
		}
	}
	_, err := exec.NewSource(exec.DataOptions{Source: pairsFile(t), Validation: 12}, n, []int64{1, 1}, 0)
	require.ErrorContains(t, err, "all 12 samples would be held out to validate on, with none left to train on; hold out fewer")

	long := filepath.Join(t.TempDir(), "long.json")
	require.NoError(t, os.WriteFile(long, []byte(`{"de": "", "en": "yes"}`+"\n"+`{"de": "sixteen bytes at least", "en": "no"}`+"\n"), 0o644))
	_, err = exec.NewSource(exec.DataOptions{Source: "pairs:" + long, Validation: 1}, n, []int64{1}, 0)
	require.ErrorContains(t, err, "the sources of all 1 samples that are held out fill all 16 tokens")

	vgg, err := models.Model{Preset: "vgg-mini-pipeline"}.Network()
	require.NoError(t, err)
	folder := t.TempDir()
	for name, label := range map[string]byte{"data_batch_1.bin": 3, "test_batch.bin": 7} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), bytes.Repeat(append([]byte{label}, make([]byte, 3072)...), 4), 0o644))
	}
	source, err := exec.NewSource(exec.DataOptions{Source: "cifar10:" + folder, Validation: 3}, vgg, []int64{2}, 2)
	require.NoError(t, err)
	require.Equal(t, []int32{3, 3}, source.Batch(1).Targets)
	out := source.HeldOut()
	require.Equal(t, [][]int32{{7, 7}, {7, data.Ignored}}, [][]int32{out[0].Targets, out[1].Targets})
	_, err = exec.NewSource(exec.DataOptions{Source: "cifar10:" + folder, Validation: 5}, vgg, []int64{2}, 2)
	require.ErrorContains(t, err, "test_batch.bin: holds 4 pictures, fewer than 5")
}
