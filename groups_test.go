package psim_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/configs"
	"psim/results"
)

// groupBytes predicts a small GPT in bf16 and lists what its groups send, by dimension and
// collective.
func groupBytes(t *testing.T, sets ...string) (bytes map[string]int64, r results.Result) {
	c, err := configs.Parse("small", []byte(`schedule = {name = "gpipe", stages = 1, microbatches = 4}
model = {family = "gpt", layers = 8, hidden = 128, heads = 8, vocab = 512, sequence_length = 64, positions = 64}
train = {precision = "bf16"}
batch = {micro = 8}
machine = {device = "a100-80gb-sxm"}`), sets...)
	require.NoError(t, err)
	p, err := psim.Predict(context.Background(), c)
	require.NoError(t, err)
	bytes = map[string]int64{}
	for _, g := range p.Result.Groups {
		bytes[g.Dimension+" "+g.Collective] = g.Bytes
		require.Positive(t, g.Time)
		require.Positive(t, g.Ranks)
	}
	return bytes, p.Result
}

// The bytes of every group are those of the papers' formulas, as rings send them.
func TestGroupsByFormula(t *testing.T) {
	const (
		layers, hidden, vocab, sequence, microbatches = 8, 128, 512, 64, 4
		element                                       = 2 // bytes of an activation and of a parameter
	)
	ring := func(n, bytes int64) int64 { return (n - 1) * bytes / n } // of a gather, or half an all-reduce

	// Shoeybi et al. 2019: two all-reduces of a layer in F and two in B; with the embedding's in
	// F and the head's in B; and of the loss three numbers for each token, in fp32.
	for _, n := range []int64{2, 4} {
		got, _ := groupBytes(t, fmt.Sprint("parallel.tensor=", n))
		activation := int64(sequence * 8 * hidden * element) // of 8 samples
		want := microbatches * ((4*layers+2)*2*ring(n, activation) + 3*2*ring(n, sequence*8*4))
		require.Equal(t, map[string]int64{"tensor all-reduce": want}, got)
		// Korthikanti et al. 2022: a reduce-scatter and a gather in place of each, and what W gathers again.
		got, _ = groupBytes(t, fmt.Sprint("parallel.tensor=", n), "parallel.sequence=true")
		again := int64(2*layers+1) * ring(n, activation)
		require.Equal(t, map[string]int64{"tensor all-gather, reduce-scatter": want + microbatches*again}, got)
	}

	// A stage between two others sends activations on and their gradients back; the table of
	// the first and the last is summed over both.
	got, _ := groupBytes(t, "schedule.stages=4")
	activation := int64(sequence * 8 * hidden * element)
	require.Equal(t, map[string]int64{"pipeline send": 2 * microbatches * activation, "tied all-reduce": 2 * ring(2, vocab*hidden*element)}, got)

	for _, n := range []int64{2, 4} {
		data := fmt.Sprint("parallel.data=", n)
		// DDP sums all gradients; ZeRO 1 scatters the sums and gathers parameters.
		got, r := groupBytes(t, data, "parallel.bucket=1TB")
		parameters := r.Parameters * element
		require.Equal(t, map[string]int64{"data all-reduce": 2 * ring(n, parameters)}, got)
		got, _ = groupBytes(t, data, "parallel.bucket=1TB", "parallel.zero=1")
		require.Equal(t, map[string]int64{"data reduce-scatter": ring(n, parameters), "data all-gather": ring(n, parameters)}, got)
		// ZeRO 2 scatters those of every microbatch; FSDP gathers before F and before B of each, and
		// the tied table once more for the head.
		got, _ = groupBytes(t, data, "parallel.bucket=1TB", "parallel.zero=2")
		require.Equal(t, map[string]int64{"data reduce-scatter": microbatches * ring(n, parameters), "data all-gather": ring(n, parameters)}, got)
		got, _ = groupBytes(t, data, "schedule.name=ddp", "parallel.zero=3")
		used := parameters + vocab*hidden*element + sequence*hidden*element // with the unit of the embedding twice
		require.Equal(t, map[string]int64{"data all-gather": 2 * microbatches * ring(n, used), "data reduce-scatter": microbatches * ring(n, used)}, got)
	}
}
