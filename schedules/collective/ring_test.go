package collective_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules/collective"
	"psim/schedules/graph"
)

func ring(t rapid.TB, kind string, ranks int, length int64, convention string) *graph.Graph {
	t.Helper()
	g, err := collective.Ring{Collective: kind, Ranks: ranks, Length: length, Element: 4, Convention: convention}.Graph()
	require.NoError(t, err)
	require.NoError(t, g.Validate())
	return g
}

// replay runs a ring on numbers: memory[r] is the tensor of rank r. pick
// chooses among the tasks that may start, so that a missing dependency shows.
func replay(t rapid.TB, g *graph.Graph, memory [][]int64, pick func(heads []int32) int32) {
	ranks := len(memory)
	flying := make([][]int64, len(g.Tasks)) // by send: the numbers under way
	start, order := g.ByStream()
	end := append([]int32{}, start[1:]...)
	ended := make([]bool, len(g.Tasks))
	for range g.Tasks {
		var heads []int32
		for s := range g.Streams {
			if start[s] < end[s] && ready(g, ended, order[start[s]]) {
				heads = append(heads, order[start[s]])
			}
		}
		require.NotEmpty(t, heads, "deadlock")
		i := pick(heads)
		task := g.Tasks[i]
		chunk := chunkOf(memory[task.Rank], ranks, int(task.Part))
		require.Equal(t, int64(4*len(chunk)), task.Bytes)
		switch task.Kind {
		case graph.Send:
			flying[i] = append([]int64{}, chunk...)
		default:
			arrive(t, g, i, chunk, flying)
		}
		ended[i] = true
		start[task.Stream]++
	}
}

// arrive adds what was sent to a chunk, or puts it in its place.
func arrive(t rapid.TB, g *graph.Graph, i int32, chunk []int64, flying [][]int64) {
	task := g.Tasks[i]
	require.Len(t, g.Deps(i), 1)
	sent := g.Tasks[g.Deps(i)[0]]
	require.Equal(t, []int32{task.Rank, int32(task.Part)}, []int32{sent.Peer, int32(sent.Part)})
	for j, v := range flying[g.Deps(i)[0]] {
		if task.Kind == graph.Copy {
			chunk[j] = 0
		}
		chunk[j] += v
	}
}

func ready(g *graph.Graph, ended []bool, i int32) bool {
	for _, d := range g.Deps(i) {
		if !ended[d] {
			return false
		}
	}
	return true
}

// The numbers that rank r starts with, and their sum over the ranks.
func initial(ranks, length int) (memory [][]int64, sum []int64) {
	sum = make([]int64, length)
	for r := range ranks {
		row := make([]int64, length)
		for j := range row {
			row[j] = int64(1)<<(3*r) + int64(j*1000) // every subset of ranks has another sum
			sum[j] += row[j]
		}
		memory = append(memory, row)
	}
	return memory, sum
}

// chunkOf returns a rank's part of a tensor.
func chunkOf(row []int64, ranks, chunk int) []int64 {
	from := int64(0)
	sizes := collective.RingChunks(int64(len(row)), ranks)
	for _, n := range sizes[:chunk] {
		from += n
	}
	return row[from : from+sizes[chunk]]
}

// checkRing replays all three collectives.
func checkRing(t rapid.TB, convention collective.Convention, ranks, length int, pick func([]int32) int32) {
	memory, sum := initial(ranks, length)
	replay(t, ring(t, collective.RingAllReduce, ranks, int64(length), convention.Name), memory, pick)
	for r := range memory {
		require.Equal(t, sum, memory[r], "rank %d", r)
	}

	memory, _ = initial(ranks, length)
	replay(t, ring(t, collective.RingReduceScatter, ranks, int64(length), convention.Name), memory, pick)
	for c := range ranks {
		require.Equal(t, chunkOf(sum, ranks, c), chunkOf(memory[convention.Owner(c, ranks)], ranks, c))
	}

	memory, _ = initial(ranks, length)
	for c := range ranks {
		copy(chunkOf(memory[convention.Owner(c, ranks)], ranks, c), chunkOf(sum, ranks, c))
	}
	replay(t, ring(t, collective.RingAllGather, ranks, int64(length), convention.Name), memory, pick)
	for r := range memory {
		require.Equal(t, sum, memory[r], "rank %d", r)
	}
}

func TestRingOnNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		convention := rapid.SampledFrom(collective.Conventions()).Draw(t, "convention")
		ranks := rapid.IntRange(1, 16).Draw(t, "ranks")
		length := rapid.IntRange(0, 40).Draw(t, "length")
		late := rapid.IntRange(0, 1<<20).Draw(t, "late")
		checkRing(t, convention, ranks, length, func(heads []int32) int32 {
			late = (late*1103515245 + 12345) & (1<<30 - 1)
			return heads[(late>>8)%len(heads)]
		})
	})
}

// Every number of ranks to 8, every length to twice that: some are shorter
// than the ring. The last task that may start goes first.
func TestSmallRingsOnNumbers(t *testing.T) {
	for _, convention := range collective.Conventions() {
		for ranks := 1; ranks <= 8; ranks++ {
			for length := range 2*ranks + 2 {
				checkRing(t, convention, ranks, length, func(heads []int32) int32 { return heads[len(heads)-1] })
			}
		}
	}
}
