package picture

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results/tracecsv"
)

func TestRankNames(t *testing.T) {
	for want, ranks := range map[string][]int{
		"rank 3": {3}, "ranks 1, 2": {1, 2}, "ranks 0–7": {0, 1, 2, 3, 4, 5, 6, 7},
		"ranks 0, 4, 8, 12": {0, 4, 8, 12}, "ranks 0, 2–4, 6, 7": {0, 2, 3, 4, 6, 7},
		"5 ranks: 1, 3, 5 … 9": {1, 3, 5, 7, 9},
	} {
		require.Equal(t, want, rankNames(ranks))
	}
}

// curves are as many different ones, each on two ranks.
func curves(different int) []tracecsv.MemoryCurve {
	var list []tracecsv.MemoryCurve
	for r := range 2 * different {
		list = append(list, tracecsv.MemoryCurve{Rank: r, Points: []tracecsv.MemoryPoint{{At: 1, Bytes: int64(1 + r%different)}, {At: 2, Bytes: 0}}})
	}
	return list
}

func TestEqualCurvesAreOneLine(t *testing.T) {
	lines, others := memoryLines(curves(3))
	require.False(t, others)
	require.Len(t, lines, 3)
	require.Equal(t, "ranks 1, 4", lines[1].name)

	same := []tracecsv.MemoryCurve{{Rank: 0, Points: []tracecsv.MemoryPoint{{At: 1, Bytes: 5}}}, {Rank: 1, Points: []tracecsv.MemoryPoint{{At: 2, Bytes: 5}}}}
	lines, _ = memoryLines(same)
	require.Len(t, lines, 2, "the same peak at another time")

	lines, others = memoryLines(curves(9))
	require.True(t, others)
	require.Equal(t, "ranks 8, 17 (highest peak, 9 B)", lines[0].name)
	require.Equal(t, "ranks 4, 13 (median peak, 5 B)", lines[1].name)
	require.Equal(t, "ranks 0, 9 (lowest peak, 1 B)", lines[2].name)
}
