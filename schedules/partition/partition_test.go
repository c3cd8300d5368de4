package partition_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules/partition"
)

// Blocks are all on some stage, the ends have what was asked, and others differ by one, those
// that have fewer further out.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, stages := rapid.IntRange(1, 200).Draw(t, "blocks"), rapid.IntRange(1, 20).Draw(t, "stages")
		e := partition.Ends{Before: rapid.IntRange(0, 2).Draw(t, "before"), After: rapid.IntRange(0, 3).Draw(t, "after"), First: rapid.IntRange(0, 9).Draw(t, "first"), Last: rapid.IntRange(0, 9).Draw(t, "last")}
		sizes, err := partition.Blocks(n, e, stages)
		if err != nil {
			require.True(t, stages > n || e.First+e.Last > 0, "%v", err)
			return
		}
		sizes[0] -= e.Before
		sizes[stages-1] -= e.After
		sum, free := 0, []int{}
		for s, size := range sizes {
			sum += size
			if (s > 0 || e.First == 0) && (s < stages-1 || e.Last == 0) {
				free = append(free, size)
			}
		}
		require.Equal(t, n, sum)
		if len(free) > 0 {
			require.LessOrEqual(t, slices.Max(free)-slices.Min(free), 1)
		}
		if e.First > 0 && stages > 1 {
			require.Equal(t, e.First, sizes[0])
		}
		if e.Last > 0 && stages > 1 {
			require.Equal(t, e.Last, sizes[stages-1])
		}
	})
	for want, c := range map[string]partition.Ends{ // 126 blocks of Llama 3 405B on 16 stages; Megatron's uneven ends
		"[8 8 8 8 8 8 8 8 8 8 8 8 8 8 8 9]": {Before: 1, After: 2},
		"[7 8 8 8 8 8 8 8 8 8 8 8 8 8 8 9]": {Before: 1, After: 2, First: 6},
	} {
		sizes, err := partition.Blocks(map[int]int{0: 126, 6: 125}[c.First], c, 16)
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprint(sizes))
	}
}

func TestPartitions(t *testing.T) {
	for _, c := range []struct {
		n, stages int
		want      []int
	}{{7, 3, []int{3, 2, 2}}, {6, 3, []int{2, 2, 2}}, {3, 3, []int{1, 1, 1}}, {5, 1, []int{5}}} {
		got, err := partition.Equal(c.n, c.stages)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, c := range []struct {
		costs []float64
		want  []int
	}{
		{[]float64{1, 1, 1, 1, 4}, []int{2, 2, 1}},
		{[]float64{4, 1, 1, 1, 1}, []int{1, 2, 2}},
		{[]float64{1, 2, 3}, []int{1, 1, 1}},
		{[]float64{9, 1, 1, 1, 1, 1, 1}, []int{1, 3, 3}}, // any cut of the ones is as good for the bottleneck
		{[]float64{0, 0, 5, 0, 5}, []int{2, 1, 2}},
	} {
		got, err := partition.Balanced(c.costs, 3)
		require.NoError(t, err)
		require.Equal(t, score(c.costs, c.want), score(c.costs, got), "%v %v", c.costs, got)
	}
}

// score is the cost of the most expensive stage, and the sum of squares.
func score(costs []float64, sizes []int) (s [2]float64) {
	i := 0
	for _, size := range sizes {
		load := 0.0
		for range size {
			load += costs[i]
			i++
		}
		s[0] = max(s[0], load)
		s[1] += load * load
	}
	return s
}

// compositions calls visit with every way of cutting n layers into stages.
func compositions(n, stages int, sizes []int, visit func([]int)) {
	if stages == 1 {
		visit(append(sizes, n))
		return
	}
	for size := 1; size <= n-stages+1; size++ {
		compositions(n-size, stages-1, append(sizes, size), visit)
	}
}

// The costs are whole numbers, so that sums are exact.
func TestPartitionBalancedIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Map(rapid.IntRange(0, 12), func(c int) float64 { return float64(c) })
		costs := rapid.SliceOfN(whole, 1, 9).Draw(t, "costs")
		stages := rapid.IntRange(1, len(costs)).Draw(t, "stages")
		best := [2]float64{math.Inf(1), math.Inf(1)}
		compositions(len(costs), stages, nil, func(sizes []int) {
			if s := score(costs, sizes); s[0] < best[0] || s[0] == best[0] && s[1] < best[1] {
				best = s
			}
		})
		got, err := partition.Balanced(costs, stages)
		require.NoError(t, err)
		_, err = partition.Explicit(got, len(costs), stages)
		require.NoError(t, err)
		require.Equal(t, best, score(costs, got))
	})
}

// With fractions the best bottleneck is still found, up to rounding.
func TestPartitionBalancedFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		costs := rapid.SliceOfN(rapid.Float64Range(0, 1e12), 1, 9).Draw(t, "costs")
		stages := rapid.IntRange(1, len(costs)).Draw(t, "stages")
		best := math.Inf(1)
		compositions(len(costs), stages, nil, func(sizes []int) { best = min(best, score(costs, sizes)[0]) })
		got, err := partition.Balanced(costs, stages)
		require.NoError(t, err)
		_, err = partition.Explicit(got, len(costs), stages)
		require.NoError(t, err)
		require.LessOrEqual(t, score(costs, got)[0], best*(1+1e-9))
	})
}

// The unit of costs makes no difference: not even where cuts are equally even, but
// for how their squares are rounded.
func TestPartitionBalancedScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		costs := rapid.SliceOfN(rapid.Float64Range(0, 4), 1, 12).Draw(t, "costs")
		scale := rapid.Float64Range(1e-3, 1e3).Draw(t, "scale")
		if rapid.Bool().Draw(t, "huge") {
			scale = rapid.SampledFrom([]float64{1e-280, 1e-160, 1e160, 1e300}).Draw(t, "huge scale")
		}
		scaled := make([]float64, len(costs))
		for i, c := range costs {
			costs[i] = math.Round(c)
			scaled[i] = costs[i] * scale
		}
		stages := rapid.IntRange(1, len(costs)).Draw(t, "stages")
		want, err := partition.Balanced(costs, stages)
		require.NoError(t, err)
		got, err := partition.Balanced(scaled, stages)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestPartitionEqualLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "layers")
		stages := rapid.IntRange(1, n).Draw(t, "stages")
		sizes, err := partition.Equal(n, stages)
		require.NoError(t, err)
		_, err = partition.Explicit(sizes, n, stages)
		require.NoError(t, err)
		require.LessOrEqual(t, sizes[0]-sizes[stages-1], 1)
		require.IsNonIncreasing(t, append(sizes, 0))
	})
}

func TestPartitionErrors(t *testing.T) {
	for _, c := range []struct {
		sizes     []int
		n, stages int
		want      string
	}{
		{[]int{1, 2}, 3, 3, "the partition has 2 stages; there must be 3"},
		{[]int{1, 0, 2}, 3, 3, "the partition gives stage 1 0 layers; every stage needs at least one"},
		{[]int{1, 2, -1}, 2, 3, "the partition gives stage 2 -1 layers; every stage needs at least one"},
		{[]int{1, 2}, 4, 2, "the partition adds up to 3 layers; the network has 4"},
	} {
		_, err := partition.Explicit(c.sizes, c.n, c.stages)
		require.EqualError(t, err, c.want)
	}
	_, err := partition.Equal(3, 4)
	require.EqualError(t, err, "4 stages for a network of 3 layers: every stage needs at least one layer")
	_, err = partition.Equal(3, 0)
	require.EqualError(t, err, "0 stages: there must be at least 1")
	_, err = partition.Balanced(nil, 1)
	require.EqualError(t, err, "1 stage for a network of 0 layers: every stage needs at least one layer")
	for cost, want := range map[float64]string{-1: "-1", math.NaN(): "NaN", math.Inf(1): "+Inf"} {
		_, err = partition.Balanced([]float64{1, cost}, 2)
		require.EqualError(t, err, "layer 1 costs "+want+": a cost must be finite and not negative")
	}
}

// BenchmarkBalanced cuts as many layers as GPT-3 has, two kinds of them, into some and many stages.
func BenchmarkBalanced(b *testing.B) {
	costs := slices.Repeat([]float64{1}, 98)
	costs[0], costs[97] = 0.1, 0.7
	for _, stages := range []int{8, 48, 96} {
		b.Run(fmt.Sprint(stages), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := partition.Balanced(costs, stages)
				require.NoError(b, err)
			}
		})
	}
}
