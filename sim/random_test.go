package sim_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/sim"
)

// A random is a graph whose task i has microbatch i, so that a cost can be
// given to every task by itself.
type random struct {
	*graph.Graph
	cost []graph.Cost
}

func (r random) costs() graph.Costs {
	return graph.Costs{Task: func(t *graph.Task) graph.Cost { return r.cost[t.Microbatch] }}
}

// drawGraph draws tasks on several streams of several ranks, with messages
// and fused collectives of groups of ranks. Dependencies point backwards, so
// it can be run to its end; if cycles is set, a few point forwards.
func drawGraph(t *rapid.T, links int32, cycles bool) random {
	ranks := rapid.Int32Range(1, 4).Draw(t, "ranks")
	steps := rapid.IntRange(1, 25).Draw(t, "steps")
	r := random{Graph: &graph.Graph{Shape: graph.Shape{Ranks: int(ranks), Microbatches: 4*steps + 1}}}
	perRank := rapid.Int32Range(1, 3).Draw(t, "streams")
	for rank := range ranks {
		for range perRank {
			r.AddStream(rank, "s")
		}
	}
	all := graph.InOrder(int(ranks)).First
	r.AddGroup(all)
	r.AddGroup(all[rapid.IntRange(0, int(ranks)-1).Draw(t, "group"):])
	for range steps {
		group := rapid.Int32Range(-6, 1).Draw(t, "group or none")
		if group >= 0 {
			cost, before := drawCost(t, 0), int32(r.Len())
			for _, rank := range r.Groups[group] {
				// a group has its own stream on every rank, where there are two
				r.task(t, graph.Task{Kind: graph.AllReduce, Rank: rank, Stream: rank*perRank + group%perRank, Peer: group}, before, cost)
			}
			continue
		}
		rank := rapid.Int32Range(0, ranks-1).Draw(t, "rank")
		kind, peer := graph.Forward, int32(graph.None)
		if ranks > 1 && rapid.Bool().Draw(t, "message") {
			kind, peer = graph.Send, (rank+1)%ranks
		}
		stream := rank*perRank + rapid.Int32Range(0, perRank-1).Draw(t, "stream")
		before := int32(r.Len())
		if cycles && rapid.IntRange(0, 20).Draw(t, "cycle") == 0 {
			before += 2 // so that it may depend on the task after it
		}
		r.task(t, graph.Task{Kind: kind, Rank: rank, Stream: stream, Peer: peer}, before, drawCost(t, links))
	}
	last := graph.Task{Kind: graph.Optimizer, Peer: graph.None}
	r.task(t, last, int32(r.Len()), drawCost(t, 0)) // the one before may depend on it
	require.NoError(t, r.Validate())
	return r
}

// drawCost draws small numbers, so that ties are many. What uses a link takes
// some time.
func drawCost(t *rapid.T, links int32) graph.Cost {
	c := graph.Cost{
		Busy:  time.Duration(rapid.IntRange(0, 5).Draw(t, "busy")),
		Delay: time.Duration(max(0, rapid.IntRange(-3, 3).Draw(t, "delay"))),
		Link:  max(0, rapid.Int32Range(-2, 2).Draw(t, "link")),
	}
	c.Link = min(c.Link, links)
	if c.Link > 0 {
		c.Busy++
	}
	return c
}

// task adds a task that depends on up to three of those before the given one.
func (r *random) task(t *rapid.T, task graph.Task, before int32, cost graph.Cost) {
	i := int32(r.Len())
	var deps []int32
	for range rapid.IntRange(0, 3).Draw(t, "dependencies") {
		if before > 0 {
			if d := rapid.Int32Range(max(0, before-8), before-1).Draw(t, "dependency"); d != i {
				deps = append(deps, d)
			}
		}
	}
	task.Stage, task.Microbatch = graph.None, i
	r.Add(task, deps...)
	r.cost = append(r.cost, cost)
}

// agree requires the simulator and the oracle to find the same spans, or both
// a deadlock after the same number of tasks.
func agree(t *rapid.T, g *graph.Graph, costs graph.Costs) {
	want := slow(g, costs)
	trace, err := sim.Run(g, costs)
	if want.done < g.Len() {
		var deadlock *sim.DeadlockError
		require.True(t, errors.As(err, &deadlock))
		require.Equal(t, want.done, deadlock.Done)
		return
	}
	require.NoError(t, err)
	require.Equal(t, want.spans, ordertest.Spans(trace))
}

func TestRandomGraphs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 2, false)
		require.NotZero(t, r.Len())
		agree(t, r.Graph, r.costs())
		require.Equal(t, r.Len(), slow(r.Graph, r.costs()).done, "it can be run to its end")
	})
}

func TestRandomDeadlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 2, true)
		agree(t, r.Graph, r.costs())
	})
}

func TestRandomPipelines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawPipeline(t)
		agree(t, g, drawPrices(t, g))
	})
}
