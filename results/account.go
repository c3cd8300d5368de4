package results

import (
	"cmp"
	"math"
	"slices"
	"time"

	"psim/schedules/graph"
)

// An account adds up the time of a trace by class.
type account struct {
	trace *graph.Trace
	made  func(*graph.Task) []graph.Share // the shares of a computing task
	time  map[string]time.Duration
	// hidden is communication that runs while its rank counts as doing something else.
	hidden map[string]time.Duration
}

func newAccount(t *graph.Trace, made func(*graph.Task) []graph.Share) account {
	return account{t, made, map[string]time.Duration{}, map[string]time.Duration{}}
}

// task counts a part of a task's time. Of a computing task it counts each share in
// proportion.
func (a *account) task(i int32, part time.Duration) {
	t := a.trace.Graph.Class(i)
	if !t.Kind.Compute() {
		a.time[a.trace.Graph.Work(t)] += part
		return
	}
	shares := a.made(t)
	var whole, at, done time.Duration
	for _, s := range shares {
		whole += s.Time
	}
	for _, s := range shares {
		at += s.Time
		upTo := time.Duration(math.Round(float64(part) * (float64(at) / float64(whole))))
		a.time[s.Class] += upTo - done
		done = upTo
	}
	if done != part { // the task has no shares
		a.time[graph.Waiting] += part - done
	}
}

// mean divides times by a number of ranks and keeps their sum: it rounds the running total over the
// classes. Every time stands for as many as copies says.
func mean(by map[string]time.Duration, copies, ranks int) map[string]float64 {
	seconds := map[string]float64{}
	var sum, done time.Duration
	for _, class := range SortedClasses(by) {
		sum += by[class] * time.Duration(copies)
		upTo := time.Duration((int64(sum) + int64(ranks)/2) / int64(ranks))
		if upTo > done {
			seconds[class] = (upTo - done).Seconds()
		}
		done = upTo
	}
	return seconds
}

// The levels of what a rank does. Of tasks that run at the same time the lowest level counts.
const (
	computing = iota
	updating
	communicating
	starting // ready, but the host has not launched it yet
)

// A stretch is a time in which a task is at a level.
type stretch struct {
	graph.Span
	task  int32
	level int
}

// ranks counts every moment of every rank once, or of the first replica where that stands for all.
func (a *account) ranks() {
	step := a.trace.End()
	for _, list := range a.stretches() {
		var now time.Duration
		var active []stretch
		counts := func(to time.Duration) {
			a.moment(active, to-now)
			now = to
		}
		for len(list) > 0 || len(active) > 0 {
			next := step
			if len(list) > 0 {
				next = list[0].Start
			}
			for _, s := range active {
				next = min(next, s.End)
			}
			counts(next)
			active = slices.DeleteFunc(active, func(s stretch) bool { return s.End <= now })
			for len(list) > 0 && list[0].Start == now {
				active, list = append(active, list[0]), list[1:]
			}
		}
		counts(step)
	}
}

// moment counts a time in which the active tasks of a rank stay the same.
func (a *account) moment(active []stretch, part time.Duration) {
	if part == 0 {
		return
	}
	if len(active) == 0 {
		a.time[graph.Waiting] += part
		return
	}
	first := slices.MinFunc(active, func(x, y stretch) int { return cmp.Or(x.level-y.level, int(x.task-y.task)) })
	if first.level == starting {
		a.time[graph.Launches] += part
		return
	}
	a.task(first.task, part)
	counted := []string{}
	if first.level == communicating {
		counted = append(counted, a.class(first))
	}
	for _, s := range active {
		if s.level != communicating || slices.Contains(counted, a.class(s)) {
			continue
		}
		counted = append(counted, a.class(s))
		a.hidden[a.class(s)] += part
	}
}

func (a *account) class(s stretch) string { return a.trace.Graph.Work(a.trace.Graph.Class(s.task)) }

// stretches lists the stretches of every rank by their start. It also counts the
// communication that tasks hide inside themselves.
func (a *account) stretches() [][]stretch {
	g := a.trace.Graph
	byRank, works := make([][]stretch, g.Ranks()/g.Replicas()), make([]bool, len(g.Streams))
	for _, t := range g.Classes { // streams that compute or update wait for their host
		works[t.Stream] = works[t.Stream] || t.Kind.Compute() || t.Kind.Update()
	}
	add := func(i int32, span graph.Span, level int) {
		if span.End > span.Start {
			r := g.Class(i).Rank
			byRank[r] = append(byRank[r], stretch{span, i, level})
		}
	}
	for i := range int32(g.Len()) {
		t, span := g.Class(i), a.trace.Span(i)
		switch {
		case t.Kind.Compute():
			add(i, span, computing)
		case t.Kind.Update():
			add(i, span, updating)
		default:
			add(i, span, communicating)
		}
		if a.trace.KnowsReady() && works[t.Stream] {
			add(i, graph.Span{Start: a.trace.ReadyAt(i), End: span.Start}, starting)
		}
		if inner := a.trace.Inner(i); inner != nil {
			tensor, context := inner.Tensor(), inner.Context
			a.hidden[TensorClass] += tensor.Communication - tensor.Exposed
			a.hidden[ContextClass] += context.Communication - context.Exposed
		}
	}
	for _, list := range byRank {
		slices.SortStableFunc(list, func(x, y stretch) int { return cmp.Compare(x.Start, y.Start) })
	}
	return byRank
}
