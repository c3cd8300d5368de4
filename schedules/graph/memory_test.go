package graph_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// simulated turns a trace made by hand into that of a simulation whose tasks change memory at
// their starts and ends.
func simulated(measured *graph.Trace, bytes ...[2]int64) *graph.Trace {
	t := &graph.Trace{Graph: measured.Graph, Persistent: measured.Persistent}
	i := 0
	t.Prices = t.Graph.Price(graph.Costs{Task: func(*graph.Task) (c graph.Cost) {
		c.Busy = measured.Spans[i].Duration()
		if i < len(bytes) {
			c.BytesAtStart, c.BytesAtEnd = bytes[i][0], bytes[i][1]
		}
		t.Released = append(t.Released, measured.Spans[i].End)
		i++
		return c
	}}, nil)
	return t
}

// changes lists those of memory.
func changes(t *graph.Trace) (list []graph.MemoryEvent) {
	for _, changes := range t.ChangesByRank() {
		list = slices.AppendSeq(list, changes)
	}
	return list
}

// At time 2 task 0 gives back 10 and task 1 takes 8: the end comes first, so
// the two are never held together. Task 2 takes no time: its start comes
// before its end, and after the end of task 0.
func TestMemoryTies(t *testing.T) {
	trace := simulated(hand(1, row{graph.Forward, 0, 0, 2}, row{graph.Forward, 0, 2, 5}, row{graph.Forward, 0, 2, 2}),
		[2]int64{10, -10}, [2]int64{8, -8}, [2]int64{3, -3})
	trace.Persistent = []int64{100}
	require.Equal(t, []graph.MemoryEvent{
		{At: 0, Bytes: 10, Task: 0},
		{At: 2, Bytes: -10, Task: 0},
		{At: 2, Bytes: 8, Task: 1},
		{At: 2, Bytes: 3, Task: 2}, {At: 2, Bytes: -3, Task: 2},
		{At: 5, Bytes: -8, Task: 1},
	}, changes(trace))
	require.Equal(t, 6, trace.MemoryChanges())
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

// drawStreams draws a simulation of two ranks with several streams each, whose tasks run one after
// another, and what they change. Some are messages, which take memory on the other rank.
func drawStreams(t *rapid.T) *graph.Trace {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 2, Microbatches: 1}}
	trace := &graph.Trace{Graph: g, Persistent: []int64{3, 7}}
	streams := rapid.IntRange(1, 5).Draw(t, "streams")
	for s := range streams {
		g.AddStream(int32(s%2), "s")
	}
	free, bytes := make([]time.Duration, streams), [][2]int64{}
	for range rapid.IntRange(0, 30).Draw(t, "tasks") {
		s := rapid.IntRange(0, streams-1).Draw(t, "stream")
		task := graph.Task{Kind: graph.Kind(rapid.IntRange(0, int(graph.Broadcast)).Draw(t, "kind")), Rank: int32(s % 2), Stream: int32(s), Peer: int32(1 - s%2)}
		if task.Kind.Collective() || s > 2 {
			task.Kind, task.Peer = graph.SendForward, int32(1-s%2)
		}
		g.Add(task)
		start := free[s] + time.Duration(rapid.IntRange(0, 3).Draw(t, "gap"))
		free[s] = start + time.Duration(rapid.IntRange(0, 3).Draw(t, "busy"))
		trace.Spans = append(trace.Spans, graph.Span{Start: start, End: free[s]})
		change := rapid.Int64Range(-2, 4)
		bytes = append(bytes, [2]int64{change.Draw(t, "at start"), change.Draw(t, "at end")})
	}
	return simulated(trace, bytes...)
}

// Going through streams finds the changes that sorting all of them does, and the peaks follow.
func TestMemoryOfStreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := drawStreams(t)
		var want []graph.MemoryEvent
		for i, task := range trace.Graph.Tasks() {
			p, span := trace.Prices[i], trace.Span(i)
			if p.AtStart != 0 {
				rank := task.Rank
				if task.Kind.Message() {
					rank = task.Peer
				}
				want = append(want, graph.MemoryEvent{At: span.Start, Bytes: p.AtStart, Rank: rank, Task: i})
			}
			if p.AtEnd != 0 {
				want = append(want, graph.MemoryEvent{At: span.End, Bytes: p.AtEnd, Rank: task.Rank, Task: i})
			}
		}
		ordertest.SortMemory(trace, want)
		slices.SortStableFunc(want, func(a, b graph.MemoryEvent) int { return cmp.Compare(a.Rank, b.Rank) })
		require.Equal(t, want, changes(trace))
		require.Equal(t, len(want), trace.MemoryChanges())
		s, level := graph.Summarize(trace), []int64{3, 7}
		peak := []int64{3, 7}
		for _, e := range want {
			level[e.Rank] += e.Bytes
			peak[e.Rank] = max(peak[e.Rank], level[e.Rank])
		}
		require.Equal(t, peak, []int64{s.Ranks[0].PeakMemory, s.Ranks[1].PeakMemory})
	})
}

// Going through the streams of a simulation gives what sorting the spans of all its tasks does.
func TestStreamsMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := drawStreams(t)
		want, have := graph.Summarize(ordertest.Measured(trace)), graph.Summarize(trace)
		for r := range have.Ranks {
			have.Ranks[r].PeakMemory = want.Ranks[r].PeakMemory // which measuring would have found
		}
		require.Equal(t, want, have)
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
	sliced.Graph.Classes[2].Part = 1
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
		trace.Graph.Classes[0].Bytes = c.bytes
		require.Equal(t, c.want, graph.Summarize(trace).Ranks[0].SentBytes, "%v %d", c.kind, c.bytes)
	}
}
