package search

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
	"psim/sim"
)

// alike is a problem with equal stages and microbatches. Of the activations,
// whole bytes, late stay from I to W. A limit of 0 is none.
type alike struct {
	p, m        int
	f, i, w, c  time.Duration
	whole, late int64
	limit       int64
}

// unit takes one unit of time for every pass and one of memory.
func unit(p, m int, limit int64) alike {
	return alike{p: p, m: m, f: 1, i: 1, w: 1, whole: 1, late: 1, limit: limit}
}

func (a alike) problem() Problem {
	in := Problem{Ranks: a.p, Microbatches: a.m, Step: func(x order.Action) graph.Cost {
		switch x.Kind {
		case graph.Forward:
			return graph.Cost{Busy: a.f, BytesAtStart: a.whole}
		case graph.InputGradient:
			return graph.Cost{Busy: a.i, BytesAtEnd: a.late - a.whole}
		}
		return graph.Cost{Busy: a.w, BytesAtEnd: -a.late}
	}}
	in.Latency = slices.Repeat([]time.Duration{a.c}, a.p-1)
	if a.limit > 0 {
		in.Limit = slices.Repeat([]int64{a.limit}, a.p)
	}
	return in
}

// drawAlike draws a problem in which every limit holds at least one microbatch.
func drawAlike(t *rapid.T, mostRanks, mostMicrobatches int) alike {
	time := func(name string) time.Duration { return time.Duration(rapid.IntRange(1, 9).Draw(t, name)) }
	a := alike{
		p: rapid.IntRange(1, mostRanks).Draw(t, "ranks"), m: rapid.IntRange(1, mostMicrobatches).Draw(t, "microbatches"),
		f: time("F"), i: time("I"), w: time("W"), c: time("latency") - 1, whole: 4,
	}
	a.late = rapid.Int64Range(0, 4).Draw(t, "late")
	if rapid.Bool().Draw(t, "limited") {
		a.limit = rapid.Int64Range(4, 4*int64(2*a.p+1)).Draw(t, "limit")
	}
	return a
}

// folded is the problem over a V: every stage is cut into two like it, of the same
// times and memory.
func (a alike) folded() Problem {
	in := a.problem()
	in.Folded, in.Latency = true, slices.Repeat([]time.Duration{a.c}, 2*a.p-1)
	return in
}

// drawUnlike draws a problem in which nothing is like anything else, and every
// pass takes and gives memory, as with a network on a machine.
func drawUnlike(t *rapid.T, folded bool) Problem {
	in := Problem{Ranks: rapid.IntRange(1, 5).Draw(t, "ranks"), Microbatches: rapid.IntRange(1, 7).Draw(t, "microbatches"), Folded: folded}
	n := in.stages() * in.Microbatches
	var costs [3][]graph.Cost
	for k := range costs {
		for range n {
			c := graph.Cost{Busy: time.Duration(rapid.IntRange(0, 9).Draw(t, "time"))}
			switch op(k) {
			case opF:
				c.BytesAtStart, c.BytesAtEnd = rapid.Int64Range(3, 6).Draw(t, "kept"), -rapid.Int64Range(0, 2).Draw(t, "sent")
			case opI:
				c.BytesAtStart = rapid.Int64Range(0, 3).Draw(t, "gradient")
				c.BytesAtEnd = -rapid.Int64Range(0, c.BytesAtStart+1).Draw(t, "freed")
			}
			costs[k] = append(costs[k], c)
		}
	}
	for i := range n { // W gives the rest back
		costs[opW][i].BytesAtEnd = -(costs[0][i].BytesAtStart + costs[0][i].BytesAtEnd + costs[1][i].BytesAtStart + costs[1][i].BytesAtEnd)
	}
	in.Step = func(a order.Action) graph.Cost {
		return costs[slices.Index(passes[:], a.Kind)][int(a.Stage)*in.Microbatches+int(a.Microbatch)]
	}
	for range in.stages() - 1 {
		in.Latency = append(in.Latency, time.Duration(rapid.IntRange(0, 5).Draw(t, "latency")))
	}
	if rapid.Bool().Draw(t, "limited") {
		in.Limit = slices.Repeat([]int64{rapid.Int64Range(9, 40).Draw(t, "limit")}, in.Ranks)
	}
	return in
}

// placed is where the stages are.
func (in Problem) placed() graph.Placement {
	p := graph.InOrder(in.Ranks)
	if in.Folded {
		for r := in.Ranks - 1; r >= 0; r-- {
			p.First = append(p.First, int32(r))
		}
	}
	return p
}

// simulated is simulate for an order that can be run.
func simulated(t require.TestingT, in Problem, o order.Order) (span, makespan time.Duration, peaks []int64) {
	span, makespan, peaks, err := simulate(in, o)
	require.NoError(t, err)
	return span, makespan, peaks
}

// simulate runs an order with the engine, and returns the longest span, the
// makespan and every rank's peak of memory.
func simulate(in Problem, o order.Order) (span, makespan time.Duration, peaks []int64, err error) {
	shape := graph.Shape{Ranks: in.Ranks, Virtual: in.lanes(), Microbatches: in.Microbatches}
	g, err := wiring.Pipeline{Shape: shape, Placement: in.placed(), Order: o}.Graph()
	if err != nil {
		return 0, 0, nil, err
	}
	trace, err := sim.Run(g, graph.Costs{ByMicrobatch: true, Task: func(task *graph.Task) graph.Cost {
		switch task.Kind {
		case graph.SendForward:
			return graph.Cost{Delay: in.Latency[task.Stage]}
		case graph.SendBackward:
			return graph.Cost{Delay: in.Latency[task.Stage-1]}
		}
		return in.Step(order.Action{Kind: task.Kind, Stage: task.Stage, Microbatch: task.Microbatch})
	}})
	if err != nil {
		return 0, 0, nil, err
	}
	first, last := map[int32]time.Duration{}, map[int32]time.Duration{}
	for i, task := range g.Tasks() { // in the order of each rank
		if !task.Kind.Compute() {
			continue
		}
		if _, seen := first[task.Rank]; !seen {
			first[task.Rank] = trace.Span(i).Start
		}
		last[task.Rank] = trace.Span(i).End
		span = max(span, last[task.Rank]-first[task.Rank])
	}
	summary := graph.Summarize(trace)
	for _, r := range summary.Ranks {
		peaks = append(peaks, r.PeakMemory)
	}
	return span, summary.Makespan, peaks, nil
}
