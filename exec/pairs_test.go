package exec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/exec"
)

// pairsGPT knows all bytes.
func pairsGPT(t testing.TB) network.Network {
	n, err := models.Model{Family: "gpt", Layers: 2, Hidden: 16, Heads: 2, Vocab: 259, SequenceLength: 16}.Network()
	require.NoError(t, err)
	return n
}

// pairsFile writes sentences whose targets have 1 to 12 bytes.
func pairsFile(t testing.TB) string {
	var text strings.Builder
	for i := range 12 {
		fmt.Fprintf(&text, `{"de": "%s", "en": "%s"}`+"\n", strings.Repeat("s", 1+i%3), strings.Repeat("t", 12-i))
	}
	file := filepath.Join(t.TempDir(), "pairs.json")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
	return "pairs:" + file
}

// measurePairs trains on pairs, with all checks.
func measurePairs(t testing.TB, j exec.Job, source string) (*exec.Measurement, error) {
	j.Optimizer.LearningRate = 1e-4
	return exec.Measure(t.Context(), j, exec.MeasureOptions{
		Devices:      exec.DeviceOptions{Oversubscribe: true},
		Data:         exec.DataOptions{Source: source, Strided: true},
		TrainOptions: exec.TrainOptions{Warmup: 1, Steps: 1}, Checks: exec.CheckNames(),
	})
}

// The loss of text pairs is the mean over the target tokens of the whole batch,
// however it is split: the same as the outputs give by hand, and as in an unsplit run.
func TestPairsTrainAsUnsplit(t *testing.T) {
	n, source := pairsGPT(t), pairsFile(t)
	const samples = 12 // all of the file, in every step
	counts := 0
	for i := range samples {
		counts += min(12-i+1, 16-(1+i%3)) // the target and its end, as far as they fit
	}
	for name, c := range map[string]struct {
		mode
		sizes []int
	}{
		"gpipe":   {mode{schedule: "gpipe", ranks: 2, replicas: 1}, []int{5, 5, 2}},
		"ddp":     {mode{schedule: "ddp", ranks: 1, replicas: 2, overlap: true}, []int{3, 3}},
		"fsdp":    {mode{schedule: "ddp", ranks: 1, replicas: 3, sharded: true}, []int{4}},
		"1f1b":    {mode{schedule: "1f1b", ranks: 2, replicas: 2}, []int{4, 2}},
		"chimera": {mode{schedule: "chimera", ranks: 2, replicas: 1}, []int{3, 3, 3, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := measurePairs(t, c.job(t, n, c.sizes), source)
			require.NoError(t, err)
			require.NoError(t, m.Verdict.Err())
			set, err := exec.NewSource(exec.DataOptions{Source: source, Strided: true}, n, slices.Repeat([]int64{int64(samples / c.replicas)}, c.replicas), 3)
			require.NoError(t, err)
			sum, counted := 0.0, 0
			for i, target := range set.Batch(2).Targets {
				if target >= 0 {
					counted++
					sum -= float64(m.Record.Outputs[i*259+int(target)])
				}
			}
			require.Equal(t, counts, counted)
			require.InDelta(t, sum/float64(counts), m.Record.Losses[2], 1e-5)
		})
	}
}

// Where no target fits into the sequence there is nothing to learn, and a batch that
// says so is refused before it makes numbers that are none.
func TestNoTargetCounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "long.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"de": "sixteen bytes at least", "en": "no"}`+"\n"), 0o644))
	j := mode{schedule: "gpipe", ranks: 2, replicas: 1}.job(t, pairsGPT(t), []int{1})
	_, err := measurePairs(t, j, "pairs:"+file)
	require.ErrorContains(t, err, "the sources of step 1 fill all 16 tokens, and nothing of their targets is left to learn; set a longer model.sequence_length")

	devices, err := exec.OpenDevices(2, exec.DeviceOptions{Oversubscribe: true})
	require.NoError(t, err)
	defer exec.CloseDevices(devices)
	trainer, err := exec.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	none := make([]int32, 16)
	for i := range none {
		none[i] = -1
	}
	_, _, err = trainer.Step(t.Context(), exec.Batch{Tokens: make([]int32, 16), Targets: none}, exec.RunOptions{})
	require.EqualError(t, err, "a batch without a target that counts in the loss")
}
