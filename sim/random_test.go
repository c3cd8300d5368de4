package sim_test

import (
	"errors"
	"slices"
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

// drawPorts draws which ranks send and receive by one port, and gives collectives those of their
// ranks.
func drawPorts(t *rapid.T, g *graph.Graph) *graph.Ports {
	one := rapid.SliceOfN(rapid.Bool(), g.Ranks(), g.Ranks()).Draw(t, "half duplex")
	port := func(rank int32) [2]int32 {
		first := rank * graph.PortsOfRank
		if one[rank] {
			return [2]int32{first, first}
		}
		return [2]int32{first, first + 1}
	}
	p := &graph.Ports{Message: func(t *graph.Task) [2]int32 { return [2]int32{port(t.Rank)[0], port(t.Peer)[1]} }}
	for _, ranks := range g.Groups {
		var list []int32
		for _, r := range ranks {
			both := port(r)
			list = append(list, slices.Compact(both[:])...)
		}
		p.Groups = append(p.Groups, list)
	}
	return p
}

// A shared link does what the oracle says, and does not carry more than it can: in no interval do
// the messages and collectives that lie in it take longer, each alone, than the interval.
func TestRandomSharing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawGraph(t, 2, rapid.IntRange(0, 9).Draw(t, "cycles") == 0)
		for i := range int32(r.Len()) {
			if c := &r.cost[i]; r.Task(i).Kind.Message() && c.Link == 0 { // every message queues for a link
				c.Link, c.Busy = 3+r.Task(i).Rank, c.Busy+1
			}
		}
		costs := r.costs()
		costs.Ports = drawPorts(t, r.Graph)
		agree(t, r.Graph, costs)
		trace, err := sim.Run(r.Graph, costs)
		if err != nil {
			return
		}
		requireCarried(t, r.Graph, costs, trace)
		costs.Ports = nil
		if alone, err := sim.Run(r.Graph, costs); err == nil && trace.Longer == nil {
			require.Equal(t, ordertest.Spans(alone), ordertest.Spans(trace), "nothing shares")
		}
	})
}

// requireCarried holds every shared port to what it can carry, and tasks to the time that they take
// alone.
func requireCarried(t *rapid.T, g *graph.Graph, costs graph.Costs, trace *graph.Trace) {
	carried := map[int32][]graph.Span{} // by port
	shared := g.Shared(costs.Ports)
	busy := map[int32][]time.Duration{}
	for i, task := range g.Tasks() {
		span, cost := trace.Span(i), costs.Task(&task)
		require.GreaterOrEqual(t, span.Duration(), cost.Busy)
		var ports []int32
		switch {
		case task.Kind.Message():
			both := costs.Ports.Message(&task)
			ports = slices.Compact(both[:])
		case task.Kind.Collective() && g.Groups[task.Peer][0] == task.Rank:
			ports = costs.Ports.Groups[task.Peer]
		}
		if ports == nil {
			require.Equal(t, cost.Busy+trace.Longer[i], span.Duration())
		}
		for _, port := range ports {
			if shared[port] {
				carried[port], busy[port] = append(carried[port], span), append(busy[port], cost.Busy)
			}
		}
	}
	for port, spans := range carried {
		for _, from := range spans {
			for _, to := range spans {
				var sum time.Duration
				for k, s := range spans {
					if s.Start >= from.Start && s.End <= to.End {
						sum += busy[port][k]
					}
				}
				require.LessOrEqual(t, sum, max(0, to.End-from.Start), "port %d", port)
			}
		}
	}
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
		r.barrier(t)
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
	if n := len(r.Barriers); n > 0 && rapid.IntRange(0, 3).Draw(t, "waits for a barrier") == 0 {
		deps = append(deps, graph.Barrier(rapid.IntRange(0, n-1).Draw(t, "barrier")))
	}
	task.Stage, task.Microbatch = graph.None, i
	r.Add(task, deps...)
	r.cost = append(r.cost, cost)
}

// barrier may add a barrier of some of the last tasks.
func (r *random) barrier(t *rapid.T) {
	if n := r.Len(); n > 0 && rapid.IntRange(0, 3).Draw(t, "barrier or none") == 0 {
		var tasks []int32
		for i := max(0, n-8); i < n; i++ {
			if rapid.Bool().Draw(t, "in the barrier") {
				tasks = append(tasks, int32(i))
			}
		}
		r.Barriers = append(r.Barriers, tasks)
	}
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
