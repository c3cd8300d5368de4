package configs_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/configs"
	"psim/costmodel/memory"
	"psim/costmodel/network"
)

// tuned is a Llama of two blocks on one device, whose samples may have any length.
const tuned = `
[schedule]
name = "ddp"

[model]
family = "llama"
layers = 2
hidden = 256
heads = 4
ffn_hidden = 512
vocab = 1000
sequence_length = 512

[batch]
micro = 4

[train]
precision = "bf16"
adapter = {kind = "lora", rank = 8, targets = ["q", "v"]}

[machine]
device = "l40s"
`

// lengthsOf writes a file of lengths and returns the setting that names it.
func lengthsOf(t require.TestingT, folder string, lengths ...int) string {
	path := filepath.Join(folder, "lengths.csv")
	require.NoError(t, os.WriteFile(path, []byte(strings.Trim(strings.Join(strings.Fields(fmt.Sprint(lengths)), "\n"), "[]")), 0o600))
	return "data.lengths=" + path
}

// Samples that all have one length are what a shorter sequence is: padded ones in time, memory and FLOPs, and packed
// ones that fill a sequence.
func TestEqualLengths(t *testing.T) {
	folder := t.TempDir()
	short, byHand := run(t, parse(t, tuned, "model.sequence_length=128"))
	padded, summary := run(t, parse(t, tuned, lengthsOf(t, folder, 128, 128), "data.batches=padded", "data.sorted=3"))
	require.Equal(t, byHand, summary)
	require.Equal(t, short.Tokens, padded.Tokens)
	require.Equal(t, short.Network.ModelFLOPs(), padded.Network.ModelFLOPs())

	whole, byHand := run(t, parse(t, tuned))
	_, summary = run(t, parse(t, tuned, lengthsOf(t, folder, 512), "data.batches=padded"))
	require.Equal(t, byHand, summary)
	cut, summary := run(t, parse(t, tuned, lengthsOf(t, folder, 5000), "data.batches=padded"))
	require.Equal(t, byHand, summary)
	require.Equal(t, whole.Tokens, cut.Tokens)
}

// FLOPs of attention in packed sequences follow the mean of squares of the pieces; all else is as without lengths.
func TestPackedFLOPs(t *testing.T) {
	folder := t.TempDir()
	attention := func(e *configs.Experiment) (flops, others float64) {
		for _, l := range e.Network.Layers {
			for _, o := range l.Ops {
				for p := network.Forward; p <= network.WeightGradient; p++ {
					if o.Class == network.Attention {
						flops += o.FLOPs(p)
					} else {
						others += o.FLOPs(p)
					}
				}
			}
		}
		return flops, others
	}
	whole, _ := run(t, parse(t, tuned))
	full, others := attention(whole)
	rapid.Check(t, func(rt *rapid.T) {
		// Sequences are whole numbers of samples of one length, but for where they are cut.
		n := rapid.SampledFrom([]int{1, 8, 100, 256, 511, 512, 700}).Draw(rt, "length")
		packed, _ := run(t, parse(t, tuned, lengthsOf(rt, folder, n, n)))
		var squares float64 // over a sequence, in the mean over where its first sample was cut
		for first := 1; first <= n; first++ {
			for left, piece := 512, first; left > 0; piece = n {
				piece = min(piece, left)
				squares, left = squares+float64(piece*piece)/float64(n), left-piece
			}
		}
		flops, same := attention(packed)
		require.Equal(rt, math.Ceil(squares/512-1e-6), math.Round(flops/full*512))
		require.Equal(rt, others, same)
		require.Equal(rt, whole.Tokens, packed.Tokens)
		require.Equal(rt, memory.Persistent(whole.Staged, 1), memory.Persistent(packed.Staged, 1))
	})
}

// Time is that of the mean batch and memory that of the longest; sorting takes padding away.
func TestPaddedBatches(t *testing.T) {
	folder := t.TempDir()
	lengths := lengthsOf(t, folder, 64, 64, 64, 448)
	_, alone := run(t, parse(t, tuned, lengths, "data.batches=padded"))
	padded, _ := run(t, parse(t, tuned, lengths, "data.batches=padded"))
	_, sorted := run(t, parse(t, tuned, lengths, "data.batches=padded", "data.sorted=50"))
	_, longest := run(t, parse(t, tuned, "model.sequence_length=448"))
	require.Less(t, sorted.StepTime, alone.StepTime)
	require.Less(t, alone.StepTime, longest.StepTime)
	require.Equal(t, longest.Ranks[0].PeakMemory, alone.Ranks[0].PeakMemory)
	require.Equal(t, int64(4*160), padded.Tokens)
	require.Equal(t, int64(327), padded.Batches.Tokens(), "64 + (1 − 0.75⁴) × 384")
	require.Contains(t, strings.Join(padded.Warnings, "\n"),
		"samples of 160 tokens in the mean are padded to 327: rates count the former, FLOPs the latter, and memory is for 448")
}

func TestLengthsRefused(t *testing.T) {
	folder := t.TempDir()
	const bounds = `must be the tokens of one sample, a whole number from 1 to 1048576`
	zero := lengthsOf(t, folder, 5, 0)
	path := strings.TrimPrefix(zero, "data.lengths=")
	for _, refused := range []struct {
		sets []string
		want string
	}{
		{[]string{zero}, fmt.Sprintf(`data.lengths = %q: line 2: "0": %s`, path, bounds)},
		{[]string{zero, "data.batches=padded"}, fmt.Sprintf(`data.lengths = %q: line 2: "0": %s`, path, bounds)},
		{[]string{"data.lengths=none.csv"}, `data.lengths = "none.csv": cannot be read: no such file or directory`},
		{[]string{"data.lengths={mean = 9, max = 5}"}, `data.lengths: {mean = 9, max = 5}: mean must be at least 1, and max at least the mean`},
		{[]string{"data.lengths={mean = 9}"}, `data.lengths: must be a file with the length of a sample on every line, or {mean = 900, max = 4096}`},
		{[]string{"data.lengths={mean = 9, max = 2000000}"}, `data.lengths = {mean = 9, max = 2000000}: max = 2000000: must be a number of tokens from 1 to 1048576`},
		{[]string{"data.lengths={mean = 9, max = 50}", "parallel.context=2"}, `data.lengths = {mean = 9, max = 50}: is not modelled with parallel.context = 2; set parallel.context = 1`},
		{
			[]string{"data.lengths={mean = 9, max = 50}", "data.batches=padded", "schedule.name=gpipe", "schedule.stages=2"},
			`data.lengths = {mean = 9, max = 50}: is not modelled with batches = "padded" and schedule.stages = 2; set data.batches = "packed"`,
		},
		{[]string{"data.sorted=0"}, `data.sorted = 0: must be 1 to 100000`},
	} {
		err := failure(configs.Parse("x.toml", []byte(tuned), refused.sets...))
		require.ErrorContains(t, err, refused.want)
		require.NotContains(t, err.Error(), "model: ")
	}
}

// Written as an object and read again, lengths are the same.
func TestLengthsWritten(t *testing.T) {
	for _, set := range []string{"data.lengths={mean = 209.5, max = 768}", "data.lengths={mean = 209, max = 768}", lengthsOf(t, t.TempDir(), 5, 7)} {
		c := parse(t, tuned, set, "data.batches=padded", "data.sorted=20")
		var b bytes.Buffer
		require.NoError(t, configs.WriteObject(&b, nil, c.Object()))
		again := parse(t, b.String())
		require.Equal(t, c.Data, again.Data)
	}
}
