package sim

import (
	"fmt"
	"time"

	"psim/schedules/graph"
)

// A candidate is the head of a stream, whose dependencies have ended and whose turn it is.
type candidate struct {
	stream, task int32
	price        *graph.Price
	ready        time.Duration
	cause        int32 // the task that determines when it is ready
}

// special returns when a candidate with a special price can start, and the task that determines
// that time. The time is negative if its stream has to wait.
func (e *Engine) special(c candidate) (time.Duration, int32, error) {
	if c.price.Negative() {
		return unfinished, none, e.negative(c.task)
	}
	if b := e.threads.previous(c.task); b != none && e.released[b] < 0 {
		e.wait(c.stream, b)
		return unfinished, none, nil
	}
	switch {
	case c.price.Group != none:
		e.arrive(c)
	case c.price.Link > 0:
		e.queue(c)
	default:
		at, cause := e.launch(c)
		return at, cause, nil
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

// finish runs the head of a stream that has waited for its link or its group. It takes longer than its
// price where it shares a port.
func (e *Engine) finish(s int32, at, longer time.Duration, cause int32) {
	on := &e.streams[s]
	i := on.head
	p := &e.prices[e.graph.Rows[i].Class]
	on.head, on.last, on.free = e.graph.Next(i), i, at+p.Busy+longer
	e.threads.note(s, recent{at, i})
	e.start(i, at, at+p.Release+longer, cause)
}

// queue puts the head of a stream into the queue of its link. If the task before it on its stream
// uses the same link, the head queues from when its dependencies have ended.
func (e *Engine) queue(c candidate) {
	since, last := c.ready, e.streams[c.stream].last
	if last != none && e.prices[e.graph.Rows[last].Class].Link == c.price.Link {
		since = 0
		if d := e.graph.Rows[c.task].After; d >= 0 {
			since = e.released[d]
		} else if d < none {
			since, _, _ = e.latest(c.stream, e.graph.List(d), 0, none)
		}
	}
	e.links.push(event{since, c.task, c.cause, c.stream})
}

// grant gives a link to the task that was ready first.
func (e *Engine) grant(ev event) {
	p := &e.prices[e.graph.Rows[ev.task].Class]
	start, cause := ev.ready, ev.cause
	if free := e.linkFree[p.Link]; free > start {
		start, cause = free, e.linkLast[p.Link]
	}
	e.linkFree[p.Link], e.linkLast[p.Link] = start+p.Busy, ev.task
	e.finish(ev.stream, start, 0, cause)
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

// park adds a candidate.
func (g *rendezvous) park(c candidate) {
	if len(g.streams) == 0 || c.ready > g.ready || c.ready == g.ready && c.stream < g.last {
		g.ready, g.cause, g.last = c.ready, c.cause, c.stream
	}
	g.streams = append(g.streams, c.stream)
}

// arrive parks a candidate at a fused collective. When the last rank of the group arrives,
// the collective runs on all of them.
func (e *Engine) arrive(c candidate) {
	g := &e.groups[c.price.Group]
	g.park(c)
	if len(g.streams) < g.members {
		return
	}
	at, why := g.ready, g.cause
	if e.sharing.on && len(e.sharing.groups[c.price.Group]) > 0 {
		e.links.push(event{at, e.streams[g.last].head, why, g.last})
		return
	}
	for _, parked := range g.streams {
		e.finish(parked, at, 0, why)
		e.awake = append(e.awake, parked)
	}
	g.streams = g.streams[:0]
}
