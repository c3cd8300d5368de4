package parallel_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/configs/parallel"
)

// Shares give every replica its samples in equal microbatches, also where they are
// written with six decimals; equal ones are as good as none.
func TestShards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 6).Draw(t, "microbatches")
		want := rapid.SliceOfN(rapid.Int64Range(1, 9), 1, 6).Draw(t, "samples")
		var total int64
		for _, n := range want {
			total += n * int64(m)
		}
		b := parallel.Batch{Global: total}
		for _, n := range want {
			share, err := strconv.ParseFloat(fmt.Sprintf("%.6f", float64(n*int64(m))/float64(total)), 64)
			require.NoError(t, err)
			b.Shards = append(b.Shards, share)
		}
		samples, shards, err := b.Divide(len(want), m)
		require.NoError(t, err)
		require.Equal(t, slices.Repeat([]int64{slices.Max(want)}, m), samples)
		if slices.Min(want) == slices.Max(want) {
			require.Nil(t, shards)
			equal, none, err := parallel.Batch{Global: total}.Divide(len(want), m)
			require.NoError(t, err)
			require.Nil(t, none)
			require.Equal(t, equal, samples)
			return
		}
		require.Equal(t, want, shards)
	})
}
