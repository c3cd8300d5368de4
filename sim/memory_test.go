package sim_test

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

// A forward takes 10 when it starts and keeps them until its backward ends; a
// message of 4 falls on the receiving rank when it starts, and the receiver's
// task gives them back at its end.
func keeping(t *graph.Task) graph.Cost {
	switch t.Kind {
	case graph.Forward:
		c := graph.Cost{Busy: 1, BytesAtStart: 10}
		if t.Stage > 0 {
			c.BytesAtEnd = -4
		}
		return c
	case graph.Backward:
		c := graph.Cost{Busy: 2, BytesAtEnd: -10}
		if t.Stage == 0 {
			c.BytesAtEnd -= 4
		}
		return c
	}
	return graph.Cost{Busy: 1, BytesAtStart: 4}
}

// Two ranks, one microbatch: 0F0 0–1, its message 1–2, 1F0 2–3, 1B0 3–5, the
// gradient 5–6, 0B0 6–8.
func TestMemory(t *testing.T) {
	g := build(t, "gpipe", 2, 1)
	trace := run(t, g, graph.Costs{Task: keeping, Persistent: []int64{100, 200}})
	type event struct {
		at    time.Duration
		rank  int32
		bytes int64
		task  string
	}
	var events []event
	for _, e := range ordertest.Memory(trace) {
		events = append(events, event{e.At, e.Rank, e.Bytes, g.Task(e.Task).String()})
	}
	require.Equal(t, []event{
		{0, 0, 10, "0F0"},
		{1, 1, 4, "0SEND_F0"},
		{2, 1, 10, "1F0"},
		{3, 1, -4, "1F0"},
		{5, 1, -10, "1B0"},
		{5, 0, 4, "1SEND_B0"},
		{8, 0, -14, "0B0"},
	}, events)
	s := graph.Summarize(trace)
	require.EqualValues(t, 114, s.Ranks[0].PeakMemory)
	require.EqualValues(t, 214, s.Ranks[1].PeakMemory)
	require.EqualValues(t, 200, s.Ranks[1].PersistentMemory)
}

// 1F1B holds P − r activations where GPipe holds M.
func TestPeakMemoryOfSchedules(t *testing.T) {
	activations := graph.Costs{Task: func(t *graph.Task) graph.Cost {
		switch t.Kind {
		case graph.Forward:
			return graph.Cost{Busy: 1, BytesAtStart: 10}
		case graph.Backward:
			return graph.Cost{Busy: 2, BytesAtEnd: -10}
		}
		return graph.Cost{}
	}}
	for name, want := range map[string][]int64{"gpipe": {80, 80, 80, 80}, "1f1b": {40, 30, 20, 10}} {
		var peaks []int64
		for _, r := range graph.Summarize(run(t, build(t, name, 4, 8), activations)).Ranks {
			peaks = append(peaks, r.PeakMemory)
		}
		require.Equal(t, want, peaks, name)
	}
}

// Events are sorted by rank and time, happen at a start or an end of their task, on its
// rank or the receiver's, and none is lost.
func TestMemoryEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 2, false)
		want := 0
		for i := range r.cost {
			r.cost[i].BytesAtStart = int64(rapid.IntRange(0, 3).Draw(t, "start"))
			r.cost[i].BytesAtEnd = -int64(rapid.IntRange(0, 3).Draw(t, "end"))
			for _, b := range []int64{r.cost[i].BytesAtStart, r.cost[i].BytesAtEnd} {
				if b != 0 {
					want++
				}
			}
		}
		trace := run(t, r.Graph, r.costs())
		var events []graph.MemoryEvent
		for _, changes := range trace.ChangesByRank() {
			events = slices.AppendSeq(events, changes)
		}
		require.Len(t, events, want)
		require.True(t, slices.IsSortedFunc(events, func(a, b graph.MemoryEvent) int {
			return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.At, b.At))
		}))
		for _, e := range events {
			task, span, cost := r.Task(e.Task), trace.Span(e.Task), r.cost[e.Task]
			if e.Bytes > 0 {
				rank := task.Rank
				if task.Kind.Message() {
					rank = task.Peer
				}
				require.Equal(t, graph.MemoryEvent{At: span.Start, Bytes: cost.BytesAtStart, Rank: rank, Task: e.Task}, e)
			} else {
				require.Equal(t, graph.MemoryEvent{At: span.End, Bytes: cost.BytesAtEnd, Rank: task.Rank, Task: e.Task}, e)
			}
		}
	})
}
