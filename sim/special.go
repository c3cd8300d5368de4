package sim

import (
	"fmt"
	"time"

	"psim/schedules/graph"
)

// special returns when a ready task of a special price can start, and the task that determines
// that time. The time is negative if its stream has to wait.
func (e *Engine) special(s, i int32, p *graph.Price, ready time.Duration, cause int32) (time.Duration, int32, error) {
	if p.Negative() {
		return unfinished, none, e.negative(i)
	}
	if b := e.threads.previous(i); b != none && e.released[b] < 0 {
		e.wait(s, b)
		return unfinished, none, nil
	}
	switch {
	case p.Group != none:
		e.arrive(s, p, ready, cause)
	case p.Link > 0:
		e.queue(s, i, p, ready, cause)
	default:
		at, why := e.launch(i, s, p, ready, cause)
		return at, why, nil
	}
	return unfinished, none, nil
}

// negative describes the negative cost of a task.
func (e *Engine) negative(i int32) error {
	p := &e.prices[e.graph.Rows[i].Class]
	if p.Busy < 0 || p.Delay() < 0 {
		return fmt.Errorf("the cost of %s is negative: busy %v, delay %v", e.graph.Describe(i), p.Busy, p.Delay())
	}
	return fmt.Errorf("the cost of launching %s is negative: %v, its first kernel after %v",
		e.graph.Describe(i), p.Launch, p.Lead)
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

// queue puts the head of a stream into the queue of its link. If the task before it on its stream
// uses the same link, the head queues from when its dependencies have ended.
func (e *Engine) queue(s, i int32, p *graph.Price, ready time.Duration, cause int32) {
	since := ready
	if last := e.streams[s].last; last != none && e.prices[e.graph.Rows[last].Class].Link == p.Link {
		since, _, _ = e.latest(s, e.graph.Deps(i), 0, none)
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

// A rendezvous collects the ranks of a group that have arrived at their next fused collective.
type rendezvous struct {
	streams []int32 // parked, each at its head
	members int
	ready   time.Duration // when the last of them is ready
	cause   int32
	last    int32 // the stream that is ready last; the lowest if there are several
}

// park adds a stream.
func (g *rendezvous) park(s int32, ready time.Duration, cause int32) {
	if len(g.streams) == 0 || ready > g.ready || ready == g.ready && s < g.last {
		g.ready, g.cause, g.last = ready, cause, s
	}
	g.streams = append(g.streams, s)
}

// arrive parks a stream at a fused collective. When the last rank of the group arrives,
// the collective runs on all of them.
func (e *Engine) arrive(s int32, p *graph.Price, ready time.Duration, cause int32) {
	g := &e.groups[p.Group]
	g.park(s, ready, cause)
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
