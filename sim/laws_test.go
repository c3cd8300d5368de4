package sim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/sim"
)

func run(t require.TestingT, g *graph.Graph, costs graph.Costs) *graph.Trace {
	trace, err := sim.Run(g, costs)
	require.NoError(t, err)
	return trace
}

// With a fixed order, more cost or latency anywhere ends no task earlier.
// Links that several ranks use are left out: the order of their queues is not
// fixed (see TestLinkAnomaly).
func TestMoreCostIsNeverFaster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 0, false)
		before := run(t, r.Graph, r.costs())
		for i := range r.cost {
			r.cost[i].Delay += time.Duration(max(0, rapid.IntRange(-2, 3).Draw(t, "delay")))
			if !r.Classes[i].Kind.Collective() { // their costs stay equal over the group
				r.cost[i].Busy += time.Duration(max(0, rapid.IntRange(-2, 3).Draw(t, "busy")))
			}
		}
		after := run(t, r.Graph, r.costs())
		for i := range int32(before.Graph.Len()) {
			require.LessOrEqual(t, before.Span(i).End, after.Span(i).End)
		}
	})
}

// So it is over links, where each has one sender: what a rank's tasks hand on queues in the
// order of these, whatever it takes.
func TestMoreCostIsNeverFasterOverOwnLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := random{Graph: drawPipeline(t).Distinct()}
		for _, task := range r.Tasks() {
			c := graph.Cost{Busy: time.Duration(rapid.IntRange(1, 9).Draw(t, "busy"))}
			switch k := task.Kind; {
			case k.Collective():
				c.Busy = 3
			case k.Message():
				c.Busy, c.Link = 5*c.Busy, task.Rank+1
			}
			r.cost = append(r.cost, c)
		}
		costs := graph.Costs{Task: func(task *graph.Task) graph.Cost { return r.cost[slices.Index(r.Classes, *task)] }}
		before := run(t, r.Graph, costs)
		for i := range r.cost {
			if !r.Classes[i].Kind.Collective() {
				r.cost[i].Busy += time.Duration(max(0, rapid.IntRange(-6, 9).Draw(t, "more")))
			}
		}
		after := run(t, r.Graph, costs)
		for i := range int32(before.Graph.Len()) {
			require.LessOrEqual(t, before.Span(i).End, after.Span(i).End, r.Describe(i))
		}
	})
}

// A rank sends twice to one neighbour and then to the other, over one link. Its second message
// is next when the first has been sent, though its stream waited for that.
func TestMessagesQueueAsTheyAreMade(t *testing.T) {
	for _, first := range []time.Duration{1, 5} {
		g := &graph.Graph{Shape: graph.Shape{Ranks: 3, Microbatches: 6}}
		compute, right, left := g.AddStream(1, "compute"), g.AddStream(1, "right"), g.AddStream(1, "left")
		send := func(stream, peer int32) {
			made := g.Add(graph.Task{Kind: graph.Forward, Rank: 1, Stream: compute, Stage: graph.None, Microbatch: int32(g.Len()), Peer: graph.None})
			g.Add(graph.Task{Kind: graph.Send, Rank: 1, Stream: stream, Stage: graph.None, Microbatch: int32(g.Len()), Peer: peer}, made)
		}
		send(right, 2)
		send(right, 2)
		send(left, 0)
		cost := []graph.Cost{{Busy: 1}, {Busy: first, Link: 1}, {Busy: 1}, {Busy: 5, Link: 1}, {Busy: 1}, {Busy: 1, Link: 1}}
		trace := run(t, g, random{g, cost}.costs())
		require.Equal(t, graph.Span{Start: 1 + first, End: 6 + first}, trace.Span(3))
		require.Equal(t, graph.Span{Start: 6 + first, End: 7 + first}, trace.Span(5))
	}
}

// Two ranks send over one link. The second message is short and long work
// waits for it. If the first is delayed, the second overtakes it in the queue,
// and the step ends earlier.
func TestLinkAnomaly(t *testing.T) {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 2, Microbatches: 5}}
	add := func(k graph.Kind, rank int32, deps ...int32) int32 {
		return g.Add(graph.Task{Kind: k, Rank: rank, Stream: g.AddStream(rank, "s"), Stage: graph.None, Microbatch: int32(g.Len()), Peer: 1 - rank}, deps...)
	}
	first := add(graph.Send, 0, add(graph.Forward, 0))
	second := add(graph.Send, 1, add(graph.Forward, 1))
	work := add(graph.Backward, 1, second)
	require.NoError(t, g.Validate())
	cost := []graph.Cost{{Busy: 0}, {Busy: 10, Link: 1}, {Busy: 1}, {Busy: 1, Link: 1}, {Busy: 20}}
	costs := random{g, cost}.costs()

	trace := run(t, g, costs)
	require.Equal(t, graph.Span{Start: 0, End: 10}, trace.Span(first))
	require.Equal(t, graph.Span{Start: 10, End: 11}, trace.Span(second))
	require.Equal(t, first, trace.CauseOf(second), "it waited for the link")
	require.EqualValues(t, 31, trace.End())

	cost[0].Busy = 2
	trace = run(t, g, costs)
	require.Equal(t, graph.Span{Start: 2, End: 12}, trace.Span(first))
	require.Equal(t, graph.Span{Start: 2, End: 22}, trace.Span(work))
	require.EqualValues(t, 22, trace.End())
}

func TestScaling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 2, false)
		k := time.Duration(rapid.IntRange(0, 1000).Draw(t, "factor"))
		want := ordertest.Spans(run(t, r.Graph, r.costs()))
		for i := range r.cost {
			r.cost[i].Busy *= k
			r.cost[i].Delay *= k
		}
		if k == 0 {
			require.Zero(t, run(t, r.Graph, r.costs()).End())
			return
		}
		for i := range want {
			want[i].Start *= k
			want[i].End *= k
		}
		require.Equal(t, want, ordertest.Spans(run(t, r.Graph, r.costs())))
	})
}

// The step lasts as long as the busiest stream, and as the longest chain of
// dependencies.
func TestLowerBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 2, false)
		trace := run(t, r.Graph, r.costs())
		busy := make([]time.Duration, len(r.Streams))
		link := map[int32]time.Duration{}
		chain := make([]time.Duration, r.Len()) // to the end of each task
		for i, task := range r.Tasks() {
			busy[task.Stream] += r.cost[i].Busy
			if r.cost[i].Link > 0 {
				link[r.cost[i].Link] += r.cost[i].Busy
			}
			for _, d := range r.Deps(i) {
				chain[i] = max(chain[i], chain[d]+r.cost[d].Delay)
			}
			chain[i] += r.cost[i].Busy
			require.GreaterOrEqual(t, trace.Span(i).End, chain[i])
			require.Equal(t, r.cost[i].Busy, trace.Span(i).Duration())
		}
		for _, b := range busy {
			require.GreaterOrEqual(t, trace.End(), b)
		}
		for _, b := range link {
			require.GreaterOrEqual(t, trace.End(), b)
		}
	})
}

func TestSummaryBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawPipeline(t)
		s := graph.Summarize(run(t, g, drawPrices(t, g)))
		require.LessOrEqual(t, s.Makespan, s.StepTime)
		for _, r := range s.Ranks {
			require.GreaterOrEqual(t, s.Makespan, r.Compute)
			require.Equal(t, s.StepTime, r.Compute+r.ExposedCommunication+r.Optimizer+r.Idle)
			require.GreaterOrEqual(t, r.Idle, time.Duration(0))
		}
		require.True(t, 0 <= s.Bubble.Span && s.Bubble.Span <= s.Bubble.Makespan && s.Bubble.Makespan <= 1, "%v", s.Bubble)
	})
}

// What two tasks that hold one link do never overlaps, even where a message
// takes no time.
func TestLinksServeOneAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 2, false)
		for i := range r.cost {
			if rapid.IntRange(0, 3).Draw(t, "empty") == 0 && !r.Classes[i].Kind.Collective() {
				r.cost[i].Busy = 0
			}
		}
		trace := run(t, r.Graph, r.costs())
		spans := ordertest.Spans(trace)
		for i, a := range spans {
			for j, b := range spans[:i] {
				if r.Classes[i].Kind.Collective() || r.Classes[j].Kind.Collective() || r.cost[i].Link == 0 || r.cost[i].Link != r.cost[j].Link {
					continue
				}
				require.True(t, a.End <= b.Start || b.End <= a.Start, "%v %v", a, b)
			}
		}
	})
}

func TestDeterminism(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 2, false)
		for i := range r.cost {
			r.cost[i].BytesAtStart, r.cost[i].BytesAtEnd = int64(i%3), int64(-i%5)
		}
		require.Equal(t, run(t, r.Graph, r.costs()), run(t, r.Graph, r.costs()))
	})
}
