package exec_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec"
)

// Data are other data where a file holds something else, or a folder other files.
func TestFingerprint(t *testing.T) {
	folder := t.TempDir()
	of := func(source string) string { return exec.DataOptions{Source: source}.Fingerprint() }
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

// Epochs are passes over the samples that there are: the same batches in every one, the
// last filled up from the beginning, and all of them measured but the first epochs'.
func TestEpochs(t *testing.T) {
	n := miniMLP(t)
	source, err := exec.NewSource(exec.DataOptions{Samples: 10, Strided: true}, n, []int64{2, 2}, 0)
	require.NoError(t, err)
	require.Equal(t, 10, source.Len())
	width := int(n.Layers[0].Input.Elements())
	sample := func(step, i int) []float32 { return source.Batch(step).Numbers[i*width : (i+1)*width] }
	require.Equal(t, source.Batch(0), source.Batch(3), "of 3 steps")
	require.Equal(t, sample(0, 0), sample(2, 1), "samples 8 and 0")
	require.Equal(t, sample(0, 2), sample(2, 3), "samples 9 and 1")
	require.NotEqual(t, source.Batch(0), source.Batch(1))

	steps := 0
	m, err := exec.Measure(t.Context(), mode{schedule: "ddp", ranks: 1, replicas: 2}.job(t, n, []int{2}), exec.MeasureOptions{
		Devices: exec.DeviceOptions{Oversubscribe: true}, Data: exec.DataOptions{Samples: 10},
		TrainOptions: exec.TrainOptions{Epochs: 2, Warmup: 1, Progress: func(int, int) { steps++ }},
	})
	require.NoError(t, err)
	require.Len(t, m.Traces, 2*3)
	require.Equal(t, 3*3, steps)
	require.Equal(t, 10, m.Samples)
	require.Len(t, m.Shards, 2)
	require.Len(t, m.Shards[1], 5)
}

// A data set that has no size, or not enough samples, is refused before anything runs.
func TestEpochErrors(t *testing.T) {
	n := pairsGPT(t)
	for want, o := range map[string]exec.DataOptions{
		"made-up samples are as many as data.samples says":    {},
		"there are 12 samples, and data.samples is 13":        {Source: pairsFile(t), Samples: 13},
		"2 samples are fewer than one step takes, which is 2": {Samples: 2},
	} {
		_, err := exec.NewSource(o, n, []int64{2, 2}, 0)
		require.ErrorContains(t, err, want)
	}
	_, err := exec.Measure(t.Context(), mode{schedule: "gpipe", ranks: 2, replicas: 1}.job(t, n, []int{1}), exec.MeasureOptions{
		Devices: exec.DeviceOptions{Oversubscribe: true}, Data: exec.DataOptions{Samples: 10},
		TrainOptions: exec.TrainOptions{Epochs: 10_001},
	})
	require.ErrorContains(t, err, "10001 epochs of 10 steps: at most 100000 steps can be kept")
}
