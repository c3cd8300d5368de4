package costmodel

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"psim/costmodel/stages"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A taskKind identifies the tasks of a graph that take the same time: they do the same, for the
// same stage and number of samples. Tasks of different replicas are of one kind.
type taskKind struct {
	kind    graph.Kind
	rank    int32 // of the pipeline
	stage   int32
	samples int64
	part    uint16
	sliced  bool // a slice of a pass, whose part 0 is not all of it
	apart   bool // between processes
}

// Profiled prices the tasks of a graph by times that were measured one task at a time: the
// median over all tasks of a kind in all traces of a graph that was wired from a plan. Memory and
// links are those of base. Times have no delays, since a message was measured until it had
// arrived. apart reports which messages and collectives pass between processes, which are of a
// kind of their own; it may be nil.
func Profiled(
	base graph.Costs, staged *stages.Staged, traces []*graph.Trace, apart func(*graph.Task) bool,
) (graph.Costs, error) {
	if len(traces) == 0 {
		return base, fmt.Errorf("no trace to take times from")
	}
	g := traces[0].Graph
	sliced := stages.SlicedIn(g)
	kindOf := func(t *graph.Task) taskKind {
		k := kindOf(g, t, staged)
		k.apart, k.sliced = apart != nil && apart(t), sliced.Has(t)
		return k
	}
	times := map[taskKind][]time.Duration{}
	for _, trace := range traces {
		for i, task := range trace.Graph.Tasks() {
			k := kindOf(&task)
			times[k] = append(times[k], trace.Span(i).Duration())
		}
	}
	medians := map[taskKind]time.Duration{}
	for k, list := range times {
		medians[k] = units.Median(list)
	}
	priced := base.Task
	base.Ports = nil
	base.Task = func(t *graph.Task) graph.Cost {
		cost := priced(t)
		cost.Busy, cost.Delay, cost.Link = medians[kindOf(t)], 0, 0
		return cost
	}
	return base, nil
}

// kindOf classifies a task. The ranks of one collective are of one kind.
func kindOf(g *graph.Graph, t *graph.Task, staged *stages.Staged) taskKind {
	k := taskKind{kind: t.Kind, rank: t.Rank % int32(g.Shape.Ranks), stage: t.Stage, part: t.Part}
	if t.Kind.Collective() {
		k.rank = g.Groups[t.Peer][0] % int32(g.Shape.Ranks)
	}
	if t.Microbatch != graph.None {
		k.samples = staged.Sizes[staged.SizeOf(t)]
	}
	return k
}

// A Crowding holds measured steps from which follows how tasks slow each other down when several
// ranks compute at once. Alone and Together are steps of the same graph, in pairs.
type Crowding struct {
	Cores    int            // that ranks share; 0 means that they share none
	Pinned   bool           // every rank stays on a core
	Alone    []*graph.Trace // one task ran at a time
	Together []*graph.Trace // several ranks computed at once
}

// Crowded adds the slowdown of tasks on shared cores to the costs of Profiled.
func Crowded(costs graph.Costs, c Crowding) graph.Costs {
	if c.Cores == 0 {
		return costs
	}
	slower := slowdowns(c.Cores, c.Alone, c.Together)
	costs.Cores = &graph.Cores{
		Number: c.Cores, Pinned: c.Pinned,
		Slower: func(t *graph.Task) float64 { return slower[t.Kind] },
	}
	return costs
}

// slowdowns returns, by kind of task, the time while all other cores are busy over the time alone.
func slowdowns(cores int, alone, together []*graph.Trace) (slower [graph.Kinds]float64) {
	var lost [graph.Kinds][]float64
	for n := range together {
		for kind, share := range lostShares(cores, alone[n], together[n]) {
			lost[kind] = append(lost[kind], share)
		}
	}
	for kind, shares := range lost {
		slower[kind] = 1
		if len(shares) > 0 {
			slower[kind] = 1 / (1 - units.Median(shares))
		}
	}
	return slower
}

// lostShares returns, by kind of task, the share of the time with all other cores busy that a
// task loses to them. It is found by least squares, so that tasks that overlap with others for
// longer count more. At worst cores take turns.
func lostShares(cores int, alone, together *graph.Trace) (shares [graph.Kinds]float64) {
	g := together.Graph
	cores = min(cores, g.Ranks())
	var product, square [graph.Kinds]float64
	order := make([]int32, g.Len()) // by start
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(together.Span(a).Start, together.Span(b).Start) })
	for at, i := range order {
		kind, own := g.Task(i).Kind, together.Span(i)
		seconds := overlap(together, order, at).Seconds() / float64(cores-1)
		product[kind] += seconds * (own.Duration() - alone.Span(i).Duration()).Seconds()
		square[kind] += seconds * seconds
	}
	for kind := range shares {
		if square[kind] > 0 && !graph.Kind(kind).Collective() {
			shares[kind] = min(max(0, product[kind]/square[kind]), 1-1/float64(cores))
		}
	}
	return shares
}

// overlap returns how long tasks of other ranks ran at the same time as the task at a place in
// the order of starts. In the trace, tasks that begin together have all ended before others begin.
func overlap(t *graph.Trace, order []int32, at int) (sum time.Duration) {
	own, rank := t.Span(order[at]), t.Graph.Task(order[at]).Rank
	add := func(i int32) {
		if other := t.Span(i); t.Graph.Task(i).Rank != rank {
			sum += max(0, min(own.End, other.End)-max(own.Start, other.Start))
		}
	}
	for k := at + 1; k < len(order) && t.Span(order[k]).Start < own.End; k++ {
		add(order[k])
	}
	for k := at - 1; k >= 0 && t.Span(order[k]).End > own.Start; k-- {
		add(order[k])
	}
	return sum
}
