package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"psim/costmodel/network"
	"psim/exec/kernels"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// keeps counts the elements of n that are kept.
func keeps(d kernels.MaskSeed, n int, layer, place string, rate float64) (mask []bool, kept int) {
	mask = make([]bool, n)
	d.Keep(mask, layer, place, rate)
	for _, k := range mask {
		if k {
			kept++
		}
	}
	return mask, kept
}

// The share of dropped elements is within five standard deviations of the rate. Nothing is
// dropped at rate 0.
func TestKeepRate(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		const n = 40_000
		d := kernels.MaskSeed{Seed: source.Uint64(), Step: source.IntN(1e6), Sample: source.IntN(1e6)}
		rate := source.Float64()
		_, kept := keeps(d, n, "h.3", "mlp.dropout", rate)
		require.InDelta(t, n*(1-rate), kept, 1+5*math.Sqrt(n*rate*(1-rate)), "rate %g", rate)
		_, kept = keeps(d, n, "h.3", "mlp.dropout", 0)
		require.Equal(t, n, kept)
	}
}

// Each sample has the same masks, however samples are put into microbatches.
func TestMasksOfMicrobatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 40).Draw(t, "elements")
		d := kernels.MaskSeed{Seed: rapid.Uint64().Draw(t, "seed"), Step: rapid.IntRange(0, 9).Draw(t, "step"),
			Sample: rapid.IntRange(0, 9).Draw(t, "first")}
		samples := rapid.IntRange(2, 6).Draw(t, "samples")
		cut := rapid.IntRange(1, samples-1).Draw(t, "cut")
		const layer, rate = "h.0", 0.4
		whole := kernels.Keep(d, layer, "drop", rate, samples, size)
		parts := kernels.Keep(d, layer, "drop", rate, cut, size)
		d.Sample += cut
		parts = append(parts, kernels.Keep(d, layer, "drop", rate, samples-cut, size)...)
		require.Equal(t, whole, parts)
	})
}

// Masks can be repeated exactly, and a longer one begins like a shorter one. Masks of another
// seed, step, sample, layer or place agree only by chance, and so do neighbours within one
// mask.
func TestMasksAreIndependent(t *testing.T) {
	const n, rate = 100_000, 0.5
	d := kernels.MaskSeed{Seed: 1390, Step: 2, Sample: 3}
	mask, _ := keeps(d, n, "h.0", "drop", rate)
	again, _ := keeps(d, n, "h.0", "drop", rate)
	require.Equal(t, mask, again)
	for _, length := range []int{0, 1, 2, 3, 5} {
		short, _ := keeps(d, length, "h.0", "drop", rate)
		require.Equal(t, mask[:length], short)
	}
	others := [][]bool{append(mask[1:n:n], mask[0]), append(mask[4:n:n], mask[:4]...)}
	for _, o := range []kernels.MaskSeed{{1391, 2, 3}, {1390, 3, 3}, {1390, 3, 2}, {1390, 2, 4}} {
		other, _ := keeps(o, n, "h.0", "drop", rate)
		others = append(others, other)
	}
	for _, names := range [][2]string{{"h.1", "drop"}, {"h.0", "mlp.dropout"}} {
		other, _ := keeps(d, n, names[0], names[1], rate)
		others = append(others, other)
	}
	for i, other := range others {
		equal := 0
		for k := range mask {
			if mask[k] == other[k] {
				equal++
			}
		}
		require.InDelta(t, n/2, equal, 5*math.Sqrt(n)/2, "%d", i)
	}
}

// Another seed, step or sample drops other elements.
func TestStepsDiffer(t *testing.T) {
	n, d := droppingGPT(t), device(t)
	p := newPipe(t, d, n, kernels.Options{Samples: 2})
	defer p.close()
	b, losses := makeData(n, 2), map[float64]bool{}
	x, y := b.part(t, d, p.stages[0], false, 0, 2), b.target(t, d, 0, 2)
	defer x.Release()
	defer y.Release()
	for _, draw := range []kernels.MaskSeed{{Seed: 1}, {Seed: 1}, {Seed: 2}, {Seed: 1, Step: 1}, {Seed: 1, Sample: 1}} {
		out, saved, err := p.stages[0].Forward(p.params[0], x, y, draw)
		require.NoError(t, err)
		losses[read(t, out)[0]] = true
		saved.Release()
		out.Release()
	}
	require.Len(t, losses, 4)
}

// A mask that a pass does not return counts with what the layer computes again, and nothing of
// it is left.
func TestRepeatedMasks(t *testing.T) {
	n, d := droppingGPT(t), device(t)
	b := makeData(n, 2)
	for _, recompute := range []kernels.Recompute{kernels.SaveAll, kernels.RepeatLayer, kernels.RepeatStage} {
		p := newPipe(t, d, n, kernels.Options{Samples: 2, Recompute: recompute})
		peak := kernels.Watch(d)
		_, saved := p.forward(t, b, 0)
		const loss = 4
		require.Equal(t, d.Bytes()+loss, peak())
		kept := saved[0].Bytes()
		before := d.Bytes() - kept
		peak = kernels.Watch(d)
		dy := upload(t, d, []float64{1}, false)
		_, work, err := p.stages[0].InputGradient(p.params[0], saved[0], dy)
		require.NoError(t, err)
		dy.Release()
		require.Equal(t, before+work.Bytes(), d.Bytes())
		require.LessOrEqual(t, peak(), before+kept+work.Bytes()+loss+again(n, recompute))
		work.Release()
		p.close()
	}
}

// again bounds from above what I of two samples computes again and does not return: for the
// largest layer, or for all.
func again(n network.Network, recompute kernels.Recompute) (bytes int64) {
	for _, l := range n.Layers {
		own := 2 * network.BufferBytes(l.Buffers, 4, 1)[network.ForwardToInput]
		switch {
		case recompute == kernels.RepeatStage:
			bytes += own
		case recompute == kernels.RepeatLayer && l.Repeatable:
			bytes = max(bytes, own)
		}
	}
	return bytes
}

// A mask of a million elements.
func BenchmarkKeep(b *testing.B) {
	keep := make([]bool, 1<<20)
	b.SetBytes(int64(len(keep)))
	for b.Loop() {
		kernels.MaskSeed{}.Keep(keep, "h.0", "mlp.dropout", 0.1)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(keep)), "ns/element")
}
