package train_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/exectest"
	"psim/exec/measure"
	"psim/exec/run"
	"psim/exec/train"
)

// measurePairs trains on pairs, with all checks.
func measurePairs(t testing.TB, j train.Job, source string) (*measure.Findings, error) {
	j.Optimizer.LearningRate = 1e-4
	return measure.Job(t.Context(), j, measure.Options{
		Devices: exectest.Options(),
		Data:    data.Options{Source: source, Strided: true},
		Train:   train.Options{Warmup: 1, Steps: 1}, Checks: measure.CheckNames(),
	})
}

// The loss of text pairs is the mean over the target tokens of the whole batch, however it is
// split: it equals what the outputs give by hand, and the loss of an unsplit run.
func TestPairsTrainAsUnsplit(t *testing.T) {
	n, source := exectest.PairsGPT(t), exectest.PairsFile(t)
	const samples = 12 // all of the file, in every step
	counts := 0
	for i := range samples {
		counts += min(12-i+1, 16-(1+i%3)) // the target and its end, if they fit
	}
	for name, c := range map[string]struct {
		exectest.Spread
		sizes []int
	}{
		"gpipe":   {exectest.Spread{Schedule: "gpipe", Ranks: 2, Replicas: 1}, []int{5, 5, 2}},
		"ddp":     {exectest.Spread{Schedule: "ddp", Ranks: 1, Replicas: 2, Overlap: true}, []int{3, 3}},
		"fsdp":    {exectest.Spread{Schedule: "ddp", Ranks: 1, Replicas: 3, Sharded: true}, []int{4}},
		"1f1b":    {exectest.Spread{Schedule: "1f1b", Ranks: 2, Replicas: 2}, []int{4, 2}},
		"chimera": {exectest.Spread{Schedule: "chimera", Ranks: 2, Replicas: 1}, []int{3, 3, 3, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := measurePairs(t, c.Job(t, n, c.sizes), source)
			require.NoError(t, err)
			require.NoError(t, m.Verdict.Err())
			set, err := data.NewSource(data.Options{Source: source, Strided: true}, n,
				slices.Repeat([]int64{int64(samples / c.Replicas)}, c.Replicas), 3)
			require.NoError(t, err)
			sum, counted := 0.0, 0
			for i, target := range set.Batch(1).Targets {
				if target >= 0 {
					counted++
					sum -= float64(m.Record.Outputs[i*259+int(target)])
				}
			}
			require.Equal(t, counts, counted)
			require.InDelta(t, sum/float64(counts), m.Record.Losses[1], 1e-5)
		})
	}
}

// If no target fits into the sequence there is nothing to learn, and such a batch is refused
// before it makes NaN.
func TestNoTargetCounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "long.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"de": "sixteen bytes at least", "en": "no"}`+"\n"), 0o644))
	j := exectest.Spread{Schedule: "gpipe", Ranks: 2, Replicas: 1}.Job(t, exectest.PairsGPT(t), []int{1})
	_, err := measurePairs(t, j, "pairs:"+file)
	require.ErrorContains(t, err, "the sources of step 1 fill all 16 tokens, and nothing of their targets is left to learn; set a longer model.sequence_length")

	devices, err := backend.Open(2, exectest.Options())
	require.NoError(t, err)
	defer backend.Close(devices)
	trainer, err := train.NewTrainer(j, devices)
	require.NoError(t, err)
	defer trainer.Close()
	none := make([]int32, 16)
	for i := range none {
		none[i] = -1
	}
	_, _, err = trainer.Step(t.Context(), data.StepBatch{Tokens: make([]int32, 16), Targets: none}, run.Options{})
	require.EqualError(t, err, "a batch without a target that counts in the loss")
}
