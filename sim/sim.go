// Package sim predicts when every task of a graph runs. [Run] is a pure
// function from a graph and the cost of its tasks to a trace: the same input
// gives the same bytes.
//
// A task is ready when everything it depends on has ended, each after its
// delay, and the task before it on its stream has ended. It starts at once,
// with two exceptions. A task that needs a shared link queues for it, first
// ready, first served, ties by index, also while its stream still uses the same link;
// what becomes ready at the same instant through a task that holds a link for no time
// queues behind. A fused collective starts when all ranks of its group are ready.
//
// Only queueing needs an order of events in time. Everything else is a
// longest path, and streams advance as far as they can before the next event
// is taken from the heap; a task on the heap is safe to start when nothing
// else can move, because whatever is not yet on it can only become ready
// later.
package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"psim/schedules/graph"
)

// Run simulates a well-formed graph (see [graph.Graph.Validate]). It fails
// with a *DeadlockError if the graph cannot be run to its end, on a negative
// cost, and when times overflow.
func Run(g *graph.Graph, costs graph.Costs) (*graph.Trace, error) {
	e := newEngine(g, costs)
	if costs.Cores != nil && costs.Host == nil {
		var err error
		if e.shared, err = shareCores(g, costs); err != nil {
			return nil, err
		}
	}
	if costs.Host != nil {
		before, err := launchOrder(g, costs.Host.Thread)
		if err != nil {
			return nil, err
		}
		e.before = before
	}
	for s := range g.Streams {
		e.wake(int32(s))
	}
	for {
		for len(e.awake) > 0 {
			s := e.awake[len(e.awake)-1]
			e.awake = e.awake[:len(e.awake)-1]
			if err := e.advance(s); err != nil {
				return nil, err
			}
		}
		if len(e.links.events) == 0 {
			break
		}
		e.grant(e.links.pop())
	}
	switch {
	case e.overflow:
		return nil, errors.New("the step would take longer than 292 years, which is more than time can count here")
	case e.done < len(g.Tasks):
		return nil, e.deadlock()
	}
	e.trace.SortMemory(e.memory...)
	return e.trace, nil
}

type engine struct {
	graph *graph.Graph
	costs graph.Costs
	trace *graph.Trace
	done  int
	// overflow says that a time has exceeded what a Duration can hold.
	overflow bool

	// The tasks of stream s are order[head[s]:end[s]] from its head on.
	order     []int32
	head, end []int32
	free      []time.Duration // by stream: when its last task ended
	last      []int32         // by stream: its last task, or none

	// A blocked stream waits for one task. waiting[t] is the first stream
	// that waits for task t and next[s] the one after stream s.
	waiting, next []int32
	released      []time.Duration // by task: end plus delay, or unfinished
	awake         []int32         // streams to advance

	pending []graph.Cost          // by stream: of its head, where that queues for a link or waits for its group
	memory  [][]graph.MemoryEvent // in pieces, so that none is copied

	links    heap             // tasks that queue for a link
	linkFree []time.Duration  // by link
	linkLast []int32          // by link
	groups   []groupCollected // by group

	launched []time.Duration // by task: when its launch ended; nil without a host
	before   []int32         // by task: the one that its thread launches before it; nil without a host
	first    []int32         // by stream: its first task, as an index of order

	shared []time.Duration // by task: how long it takes beside others; nil without cores
}

const (
	none       = int32(graph.None)
	unfinished = time.Duration(-1)
)

// groupCollected tells how far the ranks of a group have come to their next
// fused collective.
type groupCollected struct {
	streams []int32 // parked, each at its head
	ready   time.Duration
	cause   int32
	last    int32 // the stream that is ready last, of several the first
}

// note parks a stream.
func (g *groupCollected) note(s int32, ready time.Duration, cause int32) {
	if len(g.streams) == 0 || ready > g.ready || ready == g.ready && s < g.last {
		g.ready, g.cause, g.last = ready, cause, s
	}
	g.streams = append(g.streams, s)
}

func newEngine(g *graph.Graph, costs graph.Costs) *engine {
	start, order := g.ByStream()
	n := len(g.Tasks)
	e := &engine{
		graph: g, costs: costs,
		trace: &graph.Trace{Graph: g, Spans: make([]graph.Span, n), Cause: filled(n, none), Persistent: costs.Persistent},
		order: order, head: start[:len(g.Streams)], end: append([]int32(nil), start[1:]...),
		free: make([]time.Duration, len(g.Streams)), last: filled(len(g.Streams), none),
		waiting: filled(n, none), next: filled(len(g.Streams), none),
		released: filled(n, unfinished), awake: make([]int32, 0, len(g.Streams)),
		groups: make([]groupCollected, len(g.Groups)), pending: make([]graph.Cost, len(g.Streams)),
	}
	if costs.Host != nil {
		e.first = slices.Clone(e.head)
		e.launched, e.trace.Ready = make([]time.Duration, n), make([]time.Duration, n)
	}
	return e
}

func filled[T any](n int, value T) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = value
	}
	return s
}

func (e *engine) wake(stream int32) { e.awake = append(e.awake, stream) }

// advance runs the tasks of a stream until one has to wait.
func (e *engine) advance(s int32) error {
	for e.head[s] < e.end[s] {
		i := e.order[e.head[s]]
		ready, cause := e.free[s], e.last[s]
		for _, d := range e.graph.Deps(i) {
			at := e.released[d]
			if at == unfinished {
				e.next[s], e.waiting[d] = e.waiting[d], s
				return nil
			}
			if at > ready {
				ready, cause = at, d
			}
		}
		t := &e.graph.Tasks[i]
		cost := e.price(i)
		if cost.Busy < 0 || cost.Delay < 0 || cost.Launch < 0 || cost.LaunchLead < 0 {
			return e.negative(i, cost)
		}
		if e.before != nil {
			if b := e.before[i]; b != none && e.released[b] == unfinished {
				e.next[s], e.waiting[b] = e.waiting[b], s
				return nil
			}
		}
		switch {
		case t.Kind.Collective():
			if !e.join(s, ready, cause, &cost) {
				return nil
			}
		case cost.Link > 0:
			e.queue(s, event{e.since(s, i, ready, &cost), i, cause, s}, &cost)
			return nil
		default:
			start, cause := e.launch(i, ready, cause, &cost)
			e.finish(i, start, cause, &cost)
		}
	}
	return nil
}

// price returns the cost of a task, beside others on the same cores.
func (e *engine) price(i int32) graph.Cost {
	cost := e.costs.Task(&e.graph.Tasks[i])
	if e.shared != nil {
		cost.Busy = e.shared[i]
	}
	return cost
}

func (e *engine) negative(i int32, c graph.Cost) error {
	if c.Busy < 0 || c.Delay < 0 {
		return fmt.Errorf("the cost of %s is negative: busy %v, delay %v", e.graph.Describe(i), c.Busy, c.Delay)
	}
	return fmt.Errorf("the cost of launching %s is negative: %v, its first kernel after %v", e.graph.Describe(i), c.Launch, c.LaunchLead)
}

// finish runs the head of a stream at a time and wakes what waited for it.
func (e *engine) finish(i int32, start time.Duration, cause int32, cost *graph.Cost) {
	t := &e.graph.Tasks[i]
	end := start + cost.Busy
	if end < start || end+cost.Delay < end {
		e.overflow = true
	}
	e.trace.Spans[i] = graph.Span{Start: start, End: end}
	if e.trace.Ready != nil && (t.Kind.Collective() || cost.Link > 0) {
		e.trace.Ready[i] = start
	}
	e.trace.Cause[i] = cause
	e.remember(t, i, cost)
	if cost.Inner != nil {
		e.noteInner(i, *cost.Inner)
	}
	e.released[i] = end + cost.Delay
	e.free[t.Stream], e.last[t.Stream] = end, i
	e.head[t.Stream]++
	e.done++
	for s := e.waiting[i]; s != none; s = e.next[s] {
		e.wake(s)
	}
	e.waiting[i] = none
}

// join parks a stream at a fused collective. The last rank of the group to
// arrive runs the collective on all of them and gets true.
func (e *engine) join(s int32, ready time.Duration, cause int32, cost *graph.Cost) bool {
	e.pending[s] = *cost
	i := e.order[e.head[s]]
	members := e.graph.Groups[e.graph.Tasks[i].Peer]
	g := &e.groups[e.graph.Tasks[i].Peer]
	g.note(s, ready, cause)
	if len(g.streams) < len(members) {
		return false
	}
	parked, at, why := g.streams, g.ready, g.cause
	g.streams = nil
	for _, p := range parked {
		i := e.order[e.head[p]]
		e.finish(i, at, why, &e.pending[p])
		if p != s {
			e.wake(p)
		}
	}
	return true
}

// CriticalPath lists the tasks that determine when the step ends, from the
// first to the last: each started when the one before it ended (or its delay had
// passed), or when a host thread that launched the one before had launched it.
// Among tasks that end last it takes the first of the graph.
func CriticalPath(t *graph.Trace) []int32 {
	end := t.End()
	last := slices.IndexFunc(t.Spans, func(s graph.Span) bool { return s.End == end })
	var path []int32
	for i := int32(last); i != none; i = t.Cause[i] {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}
