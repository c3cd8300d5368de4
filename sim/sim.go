// Package sim predicts when every task of a graph runs. [Run] is a pure
// function from a graph and the cost of its tasks to a trace: the same input
// gives the same bytes.
//
// A task is ready when everything it depends on has ended, each after its
// delay, and the task before it on its stream has ended. It starts at once,
// with three exceptions. A task that needs a shared link queues for it, first
// ready, first served, ties by index, also while its stream still uses the same link;
// what becomes ready at the same instant through a task that holds a link for no time
// queues behind. A fused collective starts when all ranks of its group are ready. And where
// hosts launch tasks, a task waits for its launch.
//
// Only queueing needs an order of events in time. Everything else is a
// longest path, and streams advance as far as they can before the next event
// is taken from the heap; a task on the heap is safe to start when nothing
// else can move, because whatever is not yet on it can only become ready
// later.
//
// A simulation takes what touching its memory takes. So there is one number for every task, which
// is when what depends on it may go on: [graph.Trace.Released]. Until a task has run the number
// says which streams wait for it.
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
	return new(Engine).Run(g, costs)
}

// An Engine simulates graphs, one after another, in memory that it keeps: a trace is valid until
// the next one. The zero value is ready.
type Engine struct {
	// NoCauses says that no critical path is wanted.
	NoCauses bool

	graph    *graph.Graph
	prices   []graph.Price
	trace    graph.Trace
	released []time.Duration // by task: see graph.Trace; negative until it has run
	cause    []int32         // by task; empty where it follows from the times
	// overflow says that a time has exceeded what a Duration can hold.
	overflow bool

	streams []stream
	awake   []int32

	links    heap
	linkFree []time.Duration
	linkLast []int32
	groups   []groupCollected
	threads  threads
}

// A stream is how far its tasks have come.
type stream struct {
	head, last int32         // the next task, and the last that has run; or none
	free       time.Duration // when that has ended
	// A blocked stream waits for one task, whose time tells which: −2 − s for stream s. next is
	// the stream after this one that waits for the same task, likewise.
	next time.Duration
}

const (
	none       = int32(graph.None)
	unfinished = time.Duration(-1)
)

// Run is the function of that name.
func (e *Engine) Run(g *graph.Graph, costs graph.Costs) (*graph.Trace, error) {
	shared := costs.Cores != nil && costs.Host == nil
	if shared || costs.ByMicrobatch {
		g = g.Apart()
	}
	e.reset(g, g.Price(costs, e.prices))
	if shared {
		if i := slices.IndexFunc(e.prices, func(p graph.Price) bool { return p.Busy < 0 || p.Delay() < 0 }); i >= 0 {
			return nil, e.negative(int32(i))
		}
		shareCores(g, *costs.Cores, e.prices)
	}
	e.trace.Persistent, e.trace.Host = costs.Persistent, costs.Host
	if err := e.threads.reset(g, costs.Host); err != nil {
		return nil, err
	}
	for s := range g.Streams {
		e.awake = append(e.awake, int32(s))
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
	case slices.ContainsFunc(e.streams, func(s stream) bool { return s.head != none }):
		return nil, e.deadlock()
	}
	return &e.trace, nil
}

// reset readies the memory for a graph.
func (e *Engine) reset(g *graph.Graph, prices []graph.Price) {
	links, special := int32(0), false
	for i := range prices {
		links, special = max(links, prices[i].Link), special || prices[i].Special
	}
	e.graph, e.prices, e.overflow = g, prices, false
	e.streams = e.streams[:0]
	for s := range g.Streams {
		e.streams = append(e.streams, stream{head: g.First(int32(s)), last: none})
	}
	e.linkFree, e.linkLast = filled(e.linkFree, int(links)+1, 0), filled(e.linkLast, int(links)+1, none)
	e.awake, e.links.events = e.awake[:0], e.links.events[:0]
	e.released, e.cause = filled(e.released, g.Len(), unfinished), e.cause[:0]
	if special && !e.NoCauses {
		e.cause = filled(e.cause, g.Len(), none)
	}
	e.groups = e.groups[:min(len(e.groups), len(g.Groups))]
	for i := range g.Groups {
		if i == len(e.groups) {
			e.groups = append(e.groups, groupCollected{})
		}
		e.groups[i] = groupCollected{streams: e.groups[i].streams[:0], members: g.Arriving(int32(i))}
	}
	e.trace = graph.Trace{Graph: g, Prices: prices, Released: e.released}
	if len(e.cause) > 0 {
		e.trace.Cause = e.cause
	}
}

// filled returns n equal values, in the same memory if it suffices.
func filled[T any](s []T, n int, value T) []T {
	if cap(s) < n {
		s = make([]T, n)
	}
	s = s[:n]
	for i := range s {
		s[i] = value
	}
	return s
}

// advance runs the tasks of a stream until one has to wait.
func (e *Engine) advance(s int32) error {
	on := &e.streams[s]
	i, free, before := on.head, on.free, on.last
	rows, skip, released := e.graph.Rows, e.graph.Skip, e.released
	for i != none {
		row := rows[i]
		ready, cause := free, before
		if d := row.After; d >= 0 {
			at := released[d]
			if at < 0 {
				e.wait(s, d)
				break
			}
			if at > ready {
				ready, cause = at, d
			}
		} else if d < none {
			var there bool
			if ready, cause, there = e.all(s, e.graph.List(d), ready, cause); !there {
				break
			}
		}
		p := &e.prices[row.Class]
		if p.Special {
			on.head, on.free, on.last = i, free, before
			var err error
			if ready, cause, err = e.special(s, i, p, ready, cause); err != nil || ready < 0 {
				return err
			}
		}
		free = ready + p.Busy
		e.start(i, ready, ready+p.Release, cause)
		before = i
		if n := skip[i]; n > 0 {
			i += int32(n)
		} else {
			i = e.graph.Next(i)
		}
	}
	on.head, on.free, on.last = i, free, before
	return nil
}

// start notes that a task runs, and when what waits for it may go on.
func (e *Engine) start(i int32, at, release time.Duration, cause int32) {
	waiting := e.released[i]
	e.released[i], e.overflow = release, e.overflow || release < at
	if len(e.cause) > 0 {
		e.cause[i] = cause
	}
	if waiting < unfinished {
		e.wake(waiting)
	}
}

// wake has the streams go on that have waited for a task.
func (e *Engine) wake(waiting time.Duration) {
	for waiting < unfinished {
		s := int32(-2 - waiting)
		e.awake = append(e.awake, s)
		waiting = e.streams[s].next
	}
}

// all finds when the last of several tasks has been released, where that is after
// ready. If one is yet to run, the stream waits for it.
func (e *Engine) all(s int32, list []int32, ready time.Duration, cause int32) (time.Duration, int32, bool) {
	for _, d := range list {
		at := e.released[d]
		if at < 0 {
			e.wait(s, d)
			return ready, cause, false
		}
		if at > ready {
			ready, cause = at, d
		}
	}
	return ready, cause, true
}

// wait has a stream wait for a task that is yet to run.
func (e *Engine) wait(s, on int32) {
	e.streams[s].next, e.released[on] = e.released[on], time.Duration(-2-s)
}

// special finds when a task that is ready can start, and the task that this is due to. A negative
// time says that its stream has to wait.
func (e *Engine) special(s, i int32, p *graph.Price, ready time.Duration, cause int32) (time.Duration, int32, error) {
	if p.Negative() {
		return unfinished, none, e.negative(i)
	}
	if b := e.threads.turn(i); b != none && e.released[b] < 0 {
		e.wait(s, b)
		return unfinished, none, nil
	}
	switch {
	case p.Group != none:
		e.join(s, p, ready, cause)
	case p.Link > 0:
		e.queue(s, i, p, ready, cause)
	default:
		at, why := e.launch(i, s, p, ready, cause)
		return at, why, nil
	}
	return unfinished, none, nil
}

func (e *Engine) negative(i int32) error {
	p := &e.prices[e.graph.Rows[i].Class]
	if p.Busy < 0 || p.Delay() < 0 {
		return fmt.Errorf("the cost of %s is negative: busy %v, delay %v", e.graph.Describe(i), p.Busy, p.Delay())
	}
	return fmt.Errorf("the cost of launching %s is negative: %v, its first kernel after %v", e.graph.Describe(i), p.Launch, p.Lead)
}

// finish runs the head of a stream that has waited for its link or its group.
func (e *Engine) finish(s int32, at time.Duration, cause int32) {
	on := &e.streams[s]
	i := on.head
	p := &e.prices[e.graph.Rows[i].Class]
	on.head, on.last, on.free = e.graph.Next(i), i, at+p.Busy
	e.threads.note(s, recent{at, i})
	e.start(i, at, at+p.Release, cause)
}

// queue has the head of a stream queue for its link: behind a task of its stream on the same link
// from when what it depends on has ended.
func (e *Engine) queue(s, i int32, p *graph.Price, ready time.Duration, cause int32) {
	since := ready
	if last := e.streams[s].last; last != none && e.prices[e.graph.Rows[last].Class].Link == p.Link {
		since, _, _ = e.all(s, e.graph.Deps(i), 0, none)
	}
	e.links.push(event{since, i, cause, s})
}

// grant gives a link to the task that was ready first.
func (e *Engine) grant(ev event) {
	p := &e.prices[e.graph.Rows[ev.task].Class]
	start, cause := ev.ready, ev.cause
	if free := e.linkFree[p.Link]; free > start {
		start, cause = free, e.linkLast[p.Link]
	}
	e.linkFree[p.Link], e.linkLast[p.Link] = start+p.Busy, ev.task
	e.finish(ev.stream, start, cause)
	e.awake = append(e.awake, ev.stream)
}

// groupCollected tells how far the ranks of a group have come to their next
// fused collective.
type groupCollected struct {
	streams []int32 // parked, each at its head
	members int
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

// join parks a stream at a fused collective. The last rank of the group to
// arrive runs the collective on all of them.
func (e *Engine) join(s int32, p *graph.Price, ready time.Duration, cause int32) {
	g := &e.groups[p.Group]
	g.note(s, ready, cause)
	if len(g.streams) < g.members {
		return
	}
	at, why := g.ready, g.cause
	for _, parked := range g.streams {
		e.finish(parked, at, why)
		e.awake = append(e.awake, parked)
	}
	g.streams = g.streams[:0]
}

// CriticalPath lists the tasks that determine when the step ends, from the
// first to the last: each started when the one before it ended (or its delay had
// passed), or when a host thread that launched the one before had launched it.
// Among tasks that end last it takes the first of the graph.
func CriticalPath(t *graph.Trace) []int32 {
	var path []int32
	for i := last(t); i != none; i = t.CauseOf(i) {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}

// last finds the first of the tasks that end last.
func last(t *graph.Trace) int32 {
	end, first := t.End(), none
	for s := range t.Graph.Streams {
		for i := t.Graph.Last(int32(s)); i != none && t.Span(i).End == end; i = t.Graph.Before(i) {
			if first == none || i < first {
				first = i
			}
		}
	}
	return first
}
