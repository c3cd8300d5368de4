// Package sim predicts when every task of a graph runs. [Run] is a pure
// function from a graph and the cost of its tasks to a trace: the same input
// gives the same bytes.
//
// A task is ready when everything it depends on has ended, each after its
// delay, and the task before it on its stream has ended. It starts at once,
// with three exceptions (special.go, host.go). A task that needs a shared link queues for it,
// first ready, first served, ties by index; it may join the queue while the task before it on its
// stream still uses the link. Tasks that become ready at the same instant, through a task that uses a
// link for no time, queue behind. Where collectives share a direction of a link with something
// else, all that is under way has equal shares (sharing.go). A fused collective starts when all ranks of its group
// are ready. And where hosts launch tasks, a task waits for its launch.
//
// Only queueing needs an order of events in time. Everything else is a
// longest path: every stream advances as far as it can before the next event
// is taken from the heap. A task on the heap is safe to start when no stream can advance,
// because any task that is not on the heap yet can only become ready later.
//
// The speed of a simulation is that of its memory accesses. So the engine keeps one number for
// every task, [graph.Trace.Released]. Before a task has run, this number says which streams
// wait for it.
package sim

import (
	"errors"
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

// An Engine simulates graphs, one after another, and reuses its memory: a trace is valid until
// the next run. The zero value is ready for use.
type Engine struct {
	// NoCauses omits what [CriticalPath] needs.
	NoCauses bool
	// Horizon ends a run with ErrLate.
	Horizon Horizon

	graph    *graph.Graph
	prices   []graph.Price
	trace    graph.Trace
	released []time.Duration // by task: see graph.Trace; negative until it has run
	cause    []int32         // by task; empty where it can be computed from the times
	overflow bool            // a time exceeds what a Duration can hold

	streams []stream
	awake   []int32

	links    heap
	linkFree []time.Duration
	linkLast []int32
	groups   []rendezvous
	barriers []barrier
	threads  threads
	sharing  sharing
}

// A stream is the state of one stream of the graph.
type stream struct {
	head, last int32         // the next task, and the last that has run; or none
	free       time.Duration // when the last task ends
	// With a Horizon: the work that has been done, and how long the stream had stood still at the end of it.
	worked, stood time.Duration
	// A blocked stream s waits for one task. The streams that wait for the same task are a linked
	// list: released of the task is −2−s of the first, and next is −2−s of the following one,
	// or unfinished after the last.
	next time.Duration
}

const (
	none       = int32(graph.None)
	unfinished = time.Duration(-1)
)

// Run simulates a graph, as the function Run does.
func (e *Engine) Run(g *graph.Graph, costs graph.Costs) (*graph.Trace, error) {
	shared := costs.Cores != nil && costs.Host == nil
	if shared || costs.ByMicrobatch {
		g = g.Distinct()
	}
	e.reset(g, g.Price(costs, e.prices))
	if shared {
		if i := slices.IndexFunc(e.prices, func(p graph.Price) bool { return p.Busy < 0 || p.Delay() < 0 }); i >= 0 {
			return nil, e.negative(int32(i))
		}
		shareCores(g, *costs.Cores, e.prices)
	}
	e.resetShared(g, costs)
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
		if e.sharing.on {
			if e.proceed() {
				continue
			}
			break
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

// reset prepares the engine for a graph.
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
			e.groups = append(e.groups, rendezvous{})
		}
		e.groups[i] = rendezvous{streams: e.groups[i].streams[:0], members: g.Arriving(int32(i))}
	}
	start := release{at: unfinished, task: none, stream: none}
	e.barriers = filled(e.barriers, len(g.Barriers), barrier{
		latest: start, runnerUp: start, scout: none, waiting: unfinished,
	})
	e.trace = graph.Trace{Graph: g, Prices: prices, Released: e.released}
	if len(e.cause) > 0 {
		e.trace.Cause = e.cause
	}
}

// resetShared prepares the engine for what tasks share, once they have their prices.
func (e *Engine) resetShared(g *graph.Graph, costs graph.Costs) {
	if costs.Cores != nil {
		costs.Ports = nil
	}
	e.sharing.reset(g, costs.Ports, e.prices, len(e.linkFree))
	e.Horizon.reset(g, e.prices)
	e.trace.Persistent, e.trace.Host = costs.Persistent, costs.Host
}

// filled returns n equal values, in the memory of s if that is large enough.
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
	work := e.Horizon.work
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
			var known bool
			if ready, cause, known = e.latest(s, e.graph.List(d), ready, cause); !known {
				break
			}
		}
		p := &e.prices[row.Class]
		if p.Special {
			on.head, on.free, on.last = i, free, before
			var err error
			if ready, cause, err = e.special(candidate{s, i, p, ready, cause}); err != nil || ready < 0 {
				return err
			}
		}
		free = ready + p.Busy
		if len(work) > 0 {
			on.work(work[row.Class], free)
		}
		e.start(i, ready, ready+p.Release, cause)
		before = i
		if n := skip[i]; n > 0 {
			i += int32(n)
		} else {
			i = e.graph.Next(i)
		}
	}
	on.head, on.free, on.last = i, free, before
	if e.Horizon.late(s, on.stood) {
		return ErrLate
	}
	return nil
}

// start records when a task runs and when it releases the tasks that wait for it.
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

// wake makes the streams advance that waited for a task, given the first of them.
func (e *Engine) wake(waiting time.Duration) {
	for waiting < unfinished {
		s := int32(-2 - waiting)
		e.awake = append(e.awake, s)
		waiting = e.streams[s].next
	}
}

// latest returns the latest release of several tasks and the task that it is of, if that is after
// ready; otherwise it returns ready and cause. If one of the tasks is still to run, the stream waits
// for it, and latest returns false.
func (e *Engine) latest(s int32, list []int32, ready time.Duration, cause int32) (time.Duration, int32, bool) {
	for _, d := range list {
		var at time.Duration
		if d < none {
			var passed bool
			if at, d, passed = e.passes(s, -2-d); !passed {
				return ready, cause, false
			}
		} else if at = e.released[d]; at < 0 {
			e.wait(s, d)
			return ready, cause, false
		}
		if at > ready {
			ready, cause = at, d
		}
	}
	return ready, cause, true
}

// wait makes a stream wait for a task that is still to run.
func (e *Engine) wait(s, on int32) {
	e.streams[s].next, e.released[on] = e.released[on], time.Duration(-2-s)
}
