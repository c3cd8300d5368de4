package collective_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules/collective"
)

// Trees and halving–doubling end with the sum on every rank, in whatever order tasks run
// that may; an all-to-all with what every rank has for every other.
func TestPairsOnNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"tree-allreduce", "halving-doubling", "all-to-all"}).Draw(t, "collective")
		ranks, length := rapid.IntRange(1, 16).Draw(t, "ranks"), rapid.IntRange(0, 40).Draw(t, "length")
		row, err := collective.Find(name)
		require.NoError(t, err)
		if row.Legal(ranks) != nil {
			ranks = 1 << rapid.IntRange(0, 4).Draw(t, "doublings")
		}
		if name == "all-to-all" {
			length *= ranks // so that chunks are equal
		}
		late := rapid.IntRange(0, 1<<20).Draw(t, "late")
		memory, sum := initial(ranks, length)
		into := memory
		if name == "all-to-all" {
			into, _ = initial(ranks, length)
		}
		replay(t, collective.Call{Collective: name, Ranks: ranks, Length: int64(length), Element: 4}, memory, into, func(heads []int32) int32 {
			late = (late*1103515245 + 12345) & (1<<30 - 1)
			return heads[(late>>8)%len(heads)]
		})
		for r := range memory {
			if name != "all-to-all" {
				require.Equal(t, sum, memory[r], "rank %d", r)
				continue
			}
			for c := range memory {
				require.Equal(t, chunkOf(memory[c], ranks, r), chunkOf(into[r], ranks, c))
			}
		}
	})
}

func TestLegalRanks(t *testing.T) {
	_, err := collective.Call{Collective: "halving-doubling", Ranks: 6, Length: 6}.Graph()
	require.EqualError(t, err, "ranks = 6: halving-doubling needs a power of two, such as 4")
	_, err = collective.Call{Collective: "tree-allreduce", Ranks: 4, Convention: "gloo"}.Graph()
	require.EqualError(t, err, `convention = "gloo": tree-allreduce is not a ring; remove convention`)
}
