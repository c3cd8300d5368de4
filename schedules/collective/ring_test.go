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
	return spelled(t, collective.Call{Collective: kind, Ranks: ranks, Length: length, Element: 4, Convention: convention})
}

func spelled(t rapid.TB, call collective.Call) *graph.Graph {
	t.Helper()
	g, err := call.Graph()
	require.NoError(t, err)
	require.NoError(t, g.Validate())
	return g
}

// replay runs a collective on numbers: memory[r] is the tensor of rank r, and what arrives
// goes to into[r]. pick chooses among the tasks that may start, so that a missing
// dependency shows.
func replay(t rapid.TB, call collective.Call, memory, into [][]int64, pick func(heads []int32) int32) {
	g := spelled(t, call)
	row, err := collective.Find(call.Collective)
	require.NoError(t, err)
	moves, err := call.Moves()
	require.NoError(t, err)
	require.Equal(t, 2*len(moves), g.Len())
	parts := row.Chunks(len(memory))
	flying := make([][]int64, g.Len()) // by send: the numbers under way
	start, order := g.ByStream()
	end := append([]int32{}, start[1:]...)
	ended := make([]bool, g.Len())
	for range g.Len() {
		var heads []int32
		for s := range g.Streams {
			if start[s] < end[s] && ready(g, ended, order[start[s]]) {
				heads = append(heads, order[start[s]])
			}
		}
		require.NotEmpty(t, heads, "deadlock")
		i := pick(heads)
		task, move := g.Task(i), moves[i/2]
		if task.Kind == graph.Send {
			require.Equal(t, []int{move.From, move.To, move.Chunk}, []int{int(task.Rank), int(task.Peer), int(task.Part)})
			flying[i] = append([]int64{}, chunks(memory[task.Rank], parts, move.Chunk, move.Count)...)
			require.Equal(t, int64(4*len(flying[i])), task.Bytes)
		} else {
			require.Equal(t, []int{move.To, move.Place}, []int{int(task.Rank), int(task.Part)})
			require.Equal(t, []int32{i - 1}, g.Deps(i))
			arrive(t, task, chunks(into[task.Rank], parts, move.Place, move.Count), flying[i-1])
		}
		ended[i] = true
		start[task.Stream]++
	}
}

// arrive adds what was sent to chunks, or puts it in their place.
func arrive(t rapid.TB, task graph.Task, chunk, sent []int64) {
	require.Len(t, sent, len(chunk))
	for j, v := range sent {
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
func chunkOf(row []int64, ranks, chunk int) []int64 { return chunks(row, ranks, chunk, 1) }

// chunks returns some of a tensor's.
func chunks(row []int64, parts, first, count int) []int64 {
	var from, length int64
	for c, n := range collective.RingChunks(int64(len(row)), parts) {
		if c < first {
			from += n
		} else if c < first+count {
			length += n
		}
	}
	return row[from : from+length]
}

// checkRing replays all three collectives.
func checkRing(t rapid.TB, convention collective.Convention, ranks, length int, pick func([]int32) int32) {
	memory, sum := initial(ranks, length)
	replay(t, collective.Call{Collective: collective.RingAllReduce, Ranks: ranks, Length: int64(length), Element: 4, Convention: convention.Name}, memory, memory, pick)
	for r := range memory {
		require.Equal(t, sum, memory[r], "rank %d", r)
	}

	memory, _ = initial(ranks, length)
	replay(t, collective.Call{Collective: collective.RingReduceScatter, Ranks: ranks, Length: int64(length), Element: 4, Convention: convention.Name}, memory, memory, pick)
	for c := range ranks {
		require.Equal(t, chunkOf(sum, ranks, c), chunkOf(memory[convention.Owner(c, ranks)], ranks, c))
	}

	memory, _ = initial(ranks, length)
	for c := range ranks {
		copy(chunkOf(memory[convention.Owner(c, ranks)], ranks, c), chunkOf(sum, ranks, c))
	}
	replay(t, collective.Call{Collective: collective.RingAllGather, Ranks: ranks, Length: int64(length), Element: 4, Convention: convention.Name}, memory, memory, pick)
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
