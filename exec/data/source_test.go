package data_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/exec/data"
	"psim/exec/exectest"
	"psim/exec/measure"
	"psim/exec/train"
)

// The fingerprint changes if a file has other contents, or a folder other files.
func TestFingerprint(t *testing.T) {
	folder := t.TempDir()
	of := func(source string) string { return data.Options{Source: source}.Fingerprint() }
	write := func(name, text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		return of("cifar10:" + folder)
	}
	a, b := write("a", "x"), write("b", "y")
	require.NotEqual(t, a, b)
	require.NotEqual(t, of("pairs:"+filepath.Join(folder, "a")), of("pairs:"+filepath.Join(folder, "b")))
	require.Equal(t, b, write("b", "y"))
	require.Equal(t, of(""), of("synthetic"))
}

// Epochs are passes over all samples. Their batches are the same in every epoch, and the last
// batch is filled up from the beginning. All epochs are measured except those that warm up.
func TestEpochs(t *testing.T) {
	n := exectest.MiniMLP(t)
	source, err := data.NewSource(data.Options{Samples: 10, Strided: true}, n, []int64{2, 2}, 0)
	require.NoError(t, err)
	require.Equal(t, 10, source.Len())
	width := int(n.Layers[0].Input.Elements())
	sample := func(step, i int) []float32 { return source.Batch(step).Numbers[i*width : (i+1)*width] }
	require.Equal(t, source.Batch(0), source.Batch(3), "of 3 steps")
	require.Equal(t, sample(0, 0), sample(2, 1), "samples 8 and 0")
	require.Equal(t, sample(0, 2), sample(2, 3), "samples 9 and 1")
	require.NotEqual(t, source.Batch(0), source.Batch(1))

	steps := 0
	m, err := measure.Job(t.Context(), exectest.Spread{Schedule: "ddp", Ranks: 1, Replicas: 2}.Job(t, n, []int{2}),
		measure.Options{
			Devices: exectest.Options(), Data: data.Options{Samples: 10},
			Train: train.Options{Epochs: 2, Warmup: 1, Progress: func(int, int) { steps++ }},
		})
	require.NoError(t, err)
	require.Len(t, m.Traces, 2*3)
	require.Equal(t, 3*3, steps)
	require.Equal(t, 10, m.Samples)
	require.Len(t, m.Shards, 2)
	require.Len(t, m.Shards[1], 5)
}

// A data set without a size, or with too few samples, is refused before anything runs.
func TestEpochErrors(t *testing.T) {
	n := exectest.PairsGPT(t)
	for want, o := range map[string]data.Options{
		"made-up samples are as many as data.samples says":         {},
		"there are 12 samples, and data.samples is 13":             {Source: exectest.PairsFile(t), Samples: 13},
		"data.samples is 2, fewer than a step takes: 2 on replica": {Samples: 2},
	} {
		_, err := data.NewSource(o, n, []int64{2, 2}, 0)
		require.ErrorContains(t, err, want)
	}
	_, err := measure.Job(t.Context(), exectest.Spread{Schedule: "gpipe", Ranks: 2, Replicas: 1}.Job(t, n, []int{1}),
		measure.Options{
			Devices: exectest.Options(), Data: data.Options{Samples: 10},
			Train: train.Options{Epochs: 10_001},
		})
	require.ErrorContains(t, err, "10001 epochs of 10 steps: at most 100000 steps can be kept")
}

// Samples of files that are held out are not trained on: CIFAR-10's test file, and the pairs
// behind those to train on.
func TestHeldOut(t *testing.T) {
	n := exectest.PairsGPT(t)
	for _, steps := range []int{0, 2, 9} { // all, some and more than there are
		source, err := data.NewSource(data.Options{Source: exectest.PairsFile(t), Validation: 5, Strided: true}, n,
			[]int64{1, 1}, steps)
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
	_, err := data.NewSource(data.Options{Source: exectest.PairsFile(t), Validation: 12}, n, []int64{1, 1}, 0)
	require.ErrorContains(t, err, "all 12 samples would be held out to validate on, with none left to train on; hold out fewer")

	long := filepath.Join(t.TempDir(), "long.json")
	require.NoError(t, os.WriteFile(long,
		[]byte(`{"de": "", "en": "yes"}`+"\n"+`{"de": "sixteen bytes at least", "en": "no"}`+"\n"), 0o644))
	_, err = data.NewSource(data.Options{Source: "pairs:" + long, Validation: 1}, n, []int64{1}, 0)
	require.ErrorContains(t, err, "the sources of all 1 samples that are held out fill all 16 tokens")

	vgg, err := models.Model{Preset: "vgg-mini-pipeline"}.Network()
	require.NoError(t, err)
	folder := t.TempDir()
	for name, label := range map[string]byte{"data_batch_1.bin": 3, "test_batch.bin": 7} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name),
			bytes.Repeat(append([]byte{label}, make([]byte, 3072)...), 4), 0o644))
	}
	source, err := data.NewSource(data.Options{Source: "cifar10:" + folder, Validation: 3}, vgg, []int64{2}, 2)
	require.NoError(t, err)
	require.Equal(t, []int32{3, 3}, source.Batch(1).Targets)
	out := source.HeldOut()
	require.Equal(t, [][]int32{{7, 7}, {7, data.Ignored}}, [][]int32{out[0].Targets, out[1].Targets})
	_, err = data.NewSource(data.Options{Source: "cifar10:" + folder, Validation: 5}, vgg, []int64{2}, 2)
	require.ErrorContains(t, err, "test_batch.bin: holds 4 pictures, fewer than 5")
}
