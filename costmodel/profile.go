package costmodel

import (
	"fmt"
	"slices"
	"time"

	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// taskKind tells apart the tasks of a graph that take different times: by what
// they do, for which stage, for how many samples. Replicas do the same.
type taskKind struct {
	kind    graph.Kind
	rank    int32 // of the pipeline
	stage   int32
	samples int64
	part    uint16
	apart   bool // between processes
}

// Profiled prices the tasks of a graph as they took when they were measured one
// by one: the median over all tasks of a kind in all traces of a graph that was
// wired from a plan. Memory and links are those of base; times have no delays, since
// what a message takes was measured until it had arrived. apart, which may be nil, tells
// which messages and collectives pass between processes: these are of a kind of their own.
func Profiled(base graph.Costs, plan *stages.Plan, traces []*graph.Trace, apart func(*graph.Task) bool) (graph.Costs, error) {
	if len(traces) == 0 {
		return base, fmt.Errorf("there is no trace to take times from")
	}
	g := traces[0].Graph
	kindOf := func(t *graph.Task) taskKind {
		k := kindOf(g, t, plan)
		k.apart = apart != nil && apart(t)
		return k
	}
	times := map[taskKind][]time.Duration{}
	for _, trace := range traces {
		for i := range trace.Graph.Tasks {
			k := kindOf(&trace.Graph.Tasks[i])
			times[k] = append(times[k], trace.Spans[i].Duration())
		}
	}
	medians := map[taskKind]time.Duration{}
	for k, list := range times {
		medians[k] = median(list)
	}
	priced := base.Task
	base.Task = func(t *graph.Task) graph.Cost {
		cost := priced(t)
		cost.Busy, cost.Delay, cost.Link = medians[kindOf(t)], 0, 0
		return cost
	}
	return base, nil
}

// kindOf classifies a task. The ranks of one collective are of one kind.
func kindOf(g *graph.Graph, t *graph.Task, plan *stages.Plan) taskKind {
	k := taskKind{kind: t.Kind, rank: t.Rank % int32(g.Shape.Ranks), stage: t.Stage, part: t.Part}
	if t.Kind.Collective() {
		k.rank = g.Groups[t.Peer][0] % int32(g.Shape.Ranks)
	}
	if t.Microbatch != graph.None {
		k.samples = plan.Sizes[plan.SizeOf(t)]
	}
	return k
}

// median of a list that is not empty, which it sorts.
func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	n := len(list)
	return (list[(n-1)/2] + list[n/2]) / 2
}
