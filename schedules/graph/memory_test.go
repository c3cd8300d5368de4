package graph_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// At time 2 task 0 gives back 10 and task 1 takes 8: the end comes first, so
// the two are never held together. Task 2 takes no time: its start comes
// before its end, and after the end of task 0.
func TestMemoryTies(t *testing.T) {
	trace := hand(1,
		row{graph.Forward, 0, 0, 2}, row{graph.Forward, 0, 2, 5}, row{graph.Forward, 0, 2, 2})
	trace.Persistent = []int64{100}
	trace.Memory = []graph.MemoryEvent{
		{At: 2, Bytes: 8, Task: 1}, {At: 5, Bytes: -8, Task: 1},
		{At: 2, Bytes: 3, Task: 2}, {At: 2, Bytes: -3, Task: 2},
		{At: 0, Bytes: 10, Task: 0}, {At: 2, Bytes: -10, Task: 0},
	}
	trace.SortMemory()
	require.Equal(t, []graph.MemoryEvent{
		{At: 0, Bytes: 10, Task: 0},
		{At: 2, Bytes: -10, Task: 0},
		{At: 2, Bytes: 8, Task: 1},
		{At: 2, Bytes: 3, Task: 2}, {At: 2, Bytes: -3, Task: 2},
		{At: 5, Bytes: -8, Task: 1},
	}, trace.Memory)
	s := graph.Summarize(trace)
	require.EqualValues(t, 100, s.Ranks[0].PersistentMemory)
	require.EqualValues(t, 111, s.Ranks[0].PeakMemory)
}

func TestMemoryByRank(t *testing.T) {
	trace := hand(2, row{graph.Forward, 0, 0, 2}, row{graph.Forward, 1, 0, 2})
	trace.Memory = []graph.MemoryEvent{{At: 0, Bytes: 7, Rank: 1, Task: 1}, {At: 1, Bytes: 5, Rank: 1, Task: 1}, {At: 2, Bytes: -12, Rank: 1, Task: 1}}
	s := graph.Summarize(trace)
	require.EqualValues(t, 0, s.Ranks[0].PeakMemory)
	require.EqualValues(t, 12, s.Ranks[1].PeakMemory)
	require.EqualValues(t, 0, s.Ranks[1].PersistentMemory)
}

// Sorting is by time, keeps every event, and does not depend on the order it
// finds them in.
func TestSortMemoryLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []row
		var events []graph.MemoryEvent
		for i := range rapid.IntRange(1, 8).Draw(t, "tasks") {
			start := time.Duration(rapid.IntRange(0, 5).Draw(t, "start"))
			end := start + time.Duration(rapid.IntRange(1, 3).Draw(t, "length"))
			rows = append(rows, row{graph.Forward, 0, start, end})
			events = append(events,
				graph.MemoryEvent{At: start, Bytes: 5, Task: int32(i)}, graph.MemoryEvent{At: end, Bytes: -5, Task: int32(i)})
		}
		trace := hand(1, rows...)
		trace.Memory = append(trace.Memory, events...)
		trace.SortMemory()
		level := int64(0)
		for k, e := range trace.Memory {
			if k > 0 {
				before := trace.Memory[k-1]
				require.LessOrEqual(t, before.At, e.At)
				if before.At == e.At {
					require.LessOrEqual(t, before.Bytes, e.Bytes, "what is given back comes first")
				}
			}
			level += e.Bytes
			require.GreaterOrEqual(t, level, int64(0))
		}
		require.ElementsMatch(t, events, trace.Memory)
		shuffled := hand(1, rows...)
		shuffled.Memory = rapid.Permutation(events).Draw(t, "shuffled")
		shuffled.SortMemory()
		require.Equal(t, trace.Memory, shuffled.Memory)
	})
}

// A rank's activations are held from the start of F to the end of B or W, so
// splitting the backward does not lower the peak.
func TestPeakInFlight(t *testing.T) {
	p := ordertest.Pipeline(t, "1f1b", 3, 4)
	require.Equal(t, []int{3, 2, 1}, ordertest.Peaks(t, p))
	p.Order = ordertest.Split(p.Order)
	require.Equal(t, []int{3, 2, 1}, ordertest.Peaks(t, p))
	p.Order = ordertest.Parse(t, "0F0 0F1 0I0 0F2 0W0 0I1 0W1 0I2 0W2")
	p.Shape = graph.Shape{Ranks: 1, Microbatches: 3}
	require.Equal(t, []int{3}, ordertest.Peaks(t, p), "0F2 starts before 0W0 has ended")

	sliced := hand(1,
		row{graph.Forward, 0, 0, 1}, row{graph.Backward, 0, 1, 2}, row{graph.Backward, 0, 2, 3},
		row{graph.Forward, 0, 3, 4}, row{graph.Forward, 0, 4, 5})
	sliced.Graph.Tasks[2].Part = 1
	require.Equal(t, 2, graph.Summarize(sliced).Ranks[0].PeakInFlight, "a sliced backward frees once")
}

// A fused collective counts as a ring, rounded down.
func TestSentBytesOfCollectives(t *testing.T) {
	for _, c := range []struct {
		kind  graph.Kind
		bytes int64
		want  int64
	}{
		{graph.AllReduce, 12, 16}, {graph.AllReduce, 10, 13}, {graph.AllReduce, 1, 1},
		{graph.ReduceScatter, 12, 8}, {graph.ReduceScatter, 10, 6}, {graph.AllGather, 11, 7},
		{graph.SendForward, 12, 12}, {graph.Average, 12, 0}, {graph.Forward, 12, 0},
		{graph.AllReduce, 6_000_000_000_000_000_000, 8_000_000_000_000_000_000}, // no overflow
	} {
		trace := hand(3, row{c.kind, 0, 0, 1})
		trace.Graph.Tasks[0].Bytes = c.bytes
		require.Equal(t, c.want, graph.Summarize(trace).Ranks[0].SentBytes, "%v %d", c.kind, c.bytes)
	}
}
