package sim

import (
	"cmp"
	"slices"
	"time"

	"psim/schedules/graph"
)

// launchOrder finds the task that the thread of every task launches before it, or
// none. Clock cycles are what a step takes in which every computing task takes one
// unit of time and others none.
func launchOrder(g *graph.Graph, thread []int32) ([]int32, error) {
	before, last := filled(len(g.Tasks), none), map[int32]int32{}
	if thread == nil {
		return before, nil
	}
	cycles, err := Run(g, graph.Costs{Task: func(t *graph.Task) graph.Cost {
		if t.Kind.Compute() {
			return graph.Cost{Busy: 1}
		}
		return graph.Cost{}
	}})
	if err != nil {
		return nil, err
	}
	var order []int32
	for i := range g.Tasks {
		if g.Tasks[i].Kind.Compute() {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(cycles.Spans[a].End, cycles.Spans[b].End), cmp.Compare(g.Tasks[a].Stage, g.Tasks[b].Stage))
	})
	for _, i := range order {
		t := thread[g.Tasks[i].Rank]
		if b, ok := last[t]; ok {
			before[i] = b
		}
		last[t] = i
	}
	return before, nil
}

// launch finds when a task that is ready can start, and the task that this is due
// to: its host thread has to have launched its kernels in time.
func (e *engine) launch(i int32, ready time.Duration, cause int32, cost *graph.Cost) (time.Duration, int32) {
	if e.launched == nil {
		return ready, cause
	}
	e.trace.Ready[i] = ready
	begin, why := time.Duration(0), none
	later := func(at time.Duration, task int32) {
		if at > begin {
			begin, why = at, task
		}
	}
	if b := e.before[i]; b != none {
		later(e.launched[b], b)
	}
	if e.costs.Host.Waits {
		later(ready, cause)
	}
	stream := e.graph.Tasks[i].Stream
	if at := e.head[stream] - int32(e.costs.Host.Queue); e.costs.Host.Queue > 0 && at >= e.first[stream] {
		full := e.order[at]
		later(e.trace.Spans[full].Start, full)
	}
	e.launched[i] = begin + cost.Launch
	if start := begin + cost.LaunchLead; start > ready {
		return start, why
	}
	return ready, cause
}
