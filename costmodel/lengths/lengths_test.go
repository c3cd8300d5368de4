package lengths_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/lengths"
)

// squares is a function of lengths that tells distributions with the same mean apart.
func squares(n int64) float64 { return float64(n*n) + 3 }

// TestPackedIsEveryCut compares packed sequences with a stream of samples that is cut at every place at which cuts
// can begin.
func TestPackedIsEveryCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Int64Range(1, 30), 1, 6).Draw(t, "samples")
		size := rapid.Int64Range(1, 20).Draw(t, "size")
		counts := map[int64]int64{}
		var sampleOf []int // of every token of the stream, which repeats
		for k := range int(size) {
			for i, n := range samples {
				if k == 0 {
					counts[n]++
				}
				sampleOf = append(sampleOf, slices.Repeat([]int{k*len(samples) + i}, int(n))...)
			}
		}
		var sum float64
		whole := int64(len(sampleOf)) // a multiple of size
		for first := range size {
			run := int64(0)
			for at := range whole {
				run++
				here, next := (first+at)%whole, (first+at+1)%whole
				if (at+1)%size == 0 || sampleOf[here] != sampleOf[next] || next == 0 {
					sum, run = sum+squares(run), 0
				}
			}
		}
		mean := sum / float64(size) / (float64(whole) / float64(size))
		b := lengths.Batches{Distribution: lengths.Counted(counts), Sequence: size}
		require.InEpsilon(t, mean, b.Attended(squares), 1e-9)
		require.Equal(t, size, b.Tokens())
		require.Equal(t, float64(size), b.Real())
	})
}

// TestPaddedIsEveryDraw compares padded batches with all draws of samples, sorted and divided.
func TestPaddedIsEveryDraw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Int64Range(1, 9), 1, 3).Draw(t, "samples")
		micro, sorted := rapid.Int64Range(1, 3).Draw(t, "micro"), rapid.Int64Range(1, 3).Draw(t, "sorted")
		most := rapid.Int64Range(1, 9).Draw(t, "most")
		counts := map[int64]int64{}
		for _, n := range samples {
			counts[n]++
		}
		draws, n := 1, int(micro*sorted)
		for range n {
			draws *= len(samples)
		}
		var sum, padded, real float64
		for draw := range draws {
			var drawn []int64
			for range n {
				drawn = append(drawn, min(most, samples[draw%len(samples)]))
				draw /= len(samples)
			}
			slices.Sort(drawn)
			for i, tokens := range drawn {
				real += float64(tokens) / float64(draws*n)
				if int64(i)%micro == micro-1 {
					sum += squares(tokens) / float64(int64(draws)*sorted)
					padded += float64(tokens) / float64(int64(draws)*sorted)
				}
			}
		}
		b := lengths.Batches{Distribution: lengths.Counted(counts), Sequence: most, Padded: micro, Sorted: sorted}
		require.InEpsilon(t, sum, b.Attended(squares), 1e-9)
		require.InDelta(t, padded, float64(b.Tokens()), 0.5+1e-9)
		require.InEpsilon(t, real, b.Real(), 1e-9)
		require.Equal(t, min(most, slices.Max(samples)), b.Longest())
	})
}

// TestLargeSortedBatches holds the mean over many sorted batches to that of one sample: nearly no padding is left.
func TestLargeSortedBatches(t *testing.T) {
	d, err := lengths.Bounded(209, 768)
	require.NoError(t, err)
	padded := func(sorted int64) float64 {
		b := lengths.Batches{Distribution: d, Sequence: 768, Padded: 8, Sorted: sorted}
		return b.Attended(func(n int64) float64 { return float64(n) })
	}
	require.Greater(t, padded(1), padded(50))
	require.Greater(t, padded(50), padded(1000))
	require.InEpsilon(t, d.Mean(), padded(1000), 0.02)
}

func TestBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 500).Draw(t, "most")
		mean := rapid.Float64Range(1, float64(most)).Draw(t, "mean")
		d, err := lengths.Bounded(mean, most)
		require.NoError(t, err)
		require.InEpsilon(t, mean, d.Mean(), 1e-6)
		require.LessOrEqual(t, d.Longest(), most)
	})
	for _, wrong := range []struct {
		mean float64
		most int64
		text string
	}{
		{0.5, 10, "mean = 0.5: must be from 1 to max = 10"},
		{11, 10, "mean = 11: must be from 1 to max = 10"},
		{5, 0, "max = 0: must be a number of tokens from 1 to 1048576"},
		{5, 1 << 21, "max = 2097152: must be a number of tokens from 1 to 1048576"},
	} {
		_, err := lengths.Bounded(wrong.mean, wrong.most)
		require.EqualError(t, err, wrong.text)
	}
}

func TestRead(t *testing.T) {
	d, err := lengths.Read([]byte("# tokens\r\n10\r\n 30 \n\n20\n20"))
	require.NoError(t, err)
	require.InEpsilon(t, 20, d.Mean(), 1e-12)
	require.Equal(t, int64(30), d.Longest())
	million, err := lengths.Read([]byte(strings.Repeat("5\n7\n", 500_000)))
	require.NoError(t, err)
	require.InEpsilon(t, 6, million.Mean(), 1e-12)

	const must = "must be the tokens of one sample, a whole number from 1 to 1048576"
	for text, problem := range map[string]string{
		"":                        "has no lengths; write the tokens of one sample on every line",
		"# nothing\n\n":           "has no lengths; write the tokens of one sample on every line",
		"10\n0\n":                 `line 2: "0": ` + must,
		"10\n\n-3\n":              `line 3: "-3": ` + must,
		"length\n10\n":            `line 1: "length": ` + must,
		"1,2\n":                   `line 1: "1,2": ` + must,
		"1.5\n":                   `line 1: "1.5": ` + must,
		"99999999999999999999\n":  `line 1: "99999999999999999999": ` + must,
		"10\n2097152\n":           `line 2: "2097152": ` + must,
		strings.Repeat("1", 5000): "has a line of more than 4096 characters; every line must have one length",
	} {
		_, err := lengths.Read([]byte(text))
		require.EqualError(t, err, problem, "%.20q", text)
	}
}

func ExampleBatches() {
	d := lengths.Counted(map[int64]int64{100: 3, 300: 1})
	square := func(n int64) float64 { return float64(n * n) }
	packed := lengths.Batches{Distribution: d, Sequence: 2048}
	fmt.Printf("packed: %d tokens, a mean reach of %.0f\n", packed.Tokens(), packed.Attended(square)/2048)
	padded := lengths.Batches{Distribution: d, Sequence: 2048, Padded: 4}
	fmt.Printf("padded: %d tokens, %.0f of them real\n", padded.Tokens(), padded.Real())
	// Output:
	// packed: 2048 tokens, a mean reach of 192
	// padded: 237 tokens, 150 of them real
}
