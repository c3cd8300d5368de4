package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/sim"
)

// sharing adds cores to costs.
func sharing(costs graph.Costs, cores graph.Cores) graph.Costs {
	costs.Cores = &cores
	return costs
}

// sideBySide is a graph of one task on each of so many streams of a rank each.
func sideBySide(kinds ...graph.Kind) *graph.Graph {
	g := &graph.Graph{Shape: graph.Shape{Ranks: len(kinds), Microbatches: 1}}
	g.AddGroup(graph.InOrder(len(kinds)).First)
	for rank, kind := range kinds {
		t := graph.Task{Kind: kind, Rank: int32(rank), Stream: g.AddStream(int32(rank), "s"), Peer: graph.None}
		if kind.Collective() {
			t.Peer = 0
		}
		g.Add(t)
	}
	return g
}

// Tasks of 10 and 30 on one core take 20 and 40, on two cores what they take alone, and
// with a neighbour that makes them half as slow again 15 and 35: as long as it runs.
func TestCores(t *testing.T) {
	costs := graph.Costs{Task: func(t *graph.Task) graph.Cost { return graph.Cost{Busy: 10 + 20*time.Duration(t.Rank)} }}
	half := func(*graph.Task) float64 { return 1.5 }
	for _, c := range []struct {
		cores graph.Cores
		want  [2]time.Duration
	}{
		{graph.Cores{}, [2]time.Duration{10, 30}},
		{graph.Cores{Number: 2}, [2]time.Duration{10, 30}},
		{graph.Cores{Number: 1}, [2]time.Duration{20, 40}},
		{graph.Cores{Number: 1, Slower: half}, [2]time.Duration{20, 40}}, // never both at once
		{graph.Cores{Slower: half}, [2]time.Duration{15, 35}},
		{graph.Cores{Number: 2, Pinned: true, Slower: half}, [2]time.Duration{15, 35}},
		{graph.Cores{Number: 1, Pinned: true}, [2]time.Duration{20, 40}},
	} {
		trace := run(t, sideBySide(graph.Forward, graph.Forward), sharing(costs, c.cores))
		require.Equal(t, c.want, [2]time.Duration{trace.Span(0).End, trace.Span(1).End}, "%+v", c.cores)
	}
}

// The ranks of a collective end together, the slowest of them for all.
func TestCoresOfCollective(t *testing.T) {
	slow := func(t *graph.Task) float64 { return 1 + float64(t.Rank) }
	costs := graph.Costs{Task: func(*graph.Task) graph.Cost { return graph.Cost{Busy: 10} }}
	for number, want := range map[int]time.Duration{0: 20, 1: 20, 2: 20} { // on one core because they take turns
		trace := run(t, sideBySide(graph.AllReduce, graph.AllReduce), sharing(costs, graph.Cores{Number: number, Slower: slow}))
		require.Equal(t, []graph.Span{{End: want}, {End: want}}, ordertest.Spans(trace))
	}
}

// Enough cores change nothing, also where links are queued for and messages delayed; with
// fewer no task is faster, all work is done, and no core does more than it can.
func TestCoresLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 2, false)
		alone, err := sim.Run(r.Graph, r.costs())
		require.NoError(t, err)
		plenty, err := sim.Run(r.Graph, sharing(r.costs(), graph.Cores{Number: len(r.Streams)}))
		require.NoError(t, err)
		require.Equal(t, ordertest.Spans(alone), ordertest.Spans(plenty))

		n := rapid.IntRange(1, 4).Draw(t, "cores")
		few, err := sim.Run(r.Graph, sharing(r.costs(), graph.Cores{Number: n}))
		require.NoError(t, err)
		var work time.Duration
		for i := range int32(r.Len()) {
			work += alone.Span(i).Duration()
			require.GreaterOrEqual(t, few.Span(i).Duration(), alone.Span(i).Duration())
		}
		require.GreaterOrEqual(t, time.Duration(n)*few.End(), work)
	})
}

// What deadlocks is said to, with cores as without.
func TestCoresOfDeadlock(t *testing.T) {
	g := oneStream(t, "1SEND_F0 1SEND_B0 1SEND_F1 1SEND_B1")
	_, err := sim.Run(g, uniform(10, 20, 1))
	_, shared := sim.Run(g, sharing(uniform(10, 20, 1), graph.Cores{Number: 1}))
	require.Equal(t, err, shared)
}
