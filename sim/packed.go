package sim

import (
	"errors"
	"time"

	"psim/schedules/graph"
)

// A Packed simulates packed graphs, one after another, in memory that it keeps. The zero
// value is ready. It does what [Run] does, with the same ties.
type Packed struct {
	graph   *graph.Packed
	tasks   []graph.PackedTask
	classes []graph.Class
	done    int
	// overflow says that a time has exceeded what a Duration can hold.
	overflow bool

	head []int32         // by stream
	free []time.Duration // by stream: when its last task ended
	// A blocked stream waits for one task, whose start tells which: −2 − s for stream s.
	// next[s] is the one after stream s, likewise.
	next  []time.Duration
	awake []int32

	launched []time.Duration // by stream: when its thread had launched its last computing task
	launches []int32         // by stream: that task

	links    heap
	linkFree []time.Duration
	linkLast []int32
	groups   []groupCollected

	// Causes asks for what CriticalPath needs.
	Causes bool
	cause  []int32 // by task; see Trace.Cause. Empty where it follows from the starts
}

// errBlocked and errOverflow end simulations that [Run] explains.
var (
	errBlocked  = errors.New("every stream is blocked")
	errOverflow = errors.New("the step would take longer than 292 years, which is more than time can count here")
)

// Run simulates a graph that has been priced, and leaves the starts in its tasks.
func (e *Packed) Run(p *graph.Packed) error {
	e.reset(p)
	for s := len(p.Begin) - 2; s >= 0; s-- {
		e.awake = append(e.awake, int32(len(p.Begin)-2-s))
	}
	for {
		for len(e.awake) > 0 {
			s := e.awake[len(e.awake)-1]
			e.awake = e.awake[:len(e.awake)-1]
			e.advance(s)
		}
		if len(e.links.events) == 0 {
			break
		}
		e.grant(e.links.pop())
	}
	switch {
	case e.overflow:
		return errOverflow
	case e.done < len(p.Tasks):
		return errBlocked
	}
	return nil
}

// reset readies the memory for a graph.
func (e *Packed) reset(p *graph.Packed) {
	streams, links := len(p.Begin)-1, int32(0)
	e.graph, e.tasks, e.classes, e.done, e.overflow = p, p.Tasks, p.Classes, 0, false
	for i := range p.Classes {
		links = max(links, p.Classes[i].Link)
	}
	e.head = append(e.head[:0], p.Begin[:streams]...)
	e.free, e.next = cleared(e.free, streams), cleared(e.next, streams)
	e.linkFree, e.linkLast = cleared(e.linkFree, int(links)+1), cleared(e.linkLast, int(links)+1)
	for i := range e.linkLast {
		e.linkLast[i] = none
	}
	e.launched, e.launches = cleared(e.launched, streams), cleared(e.launches, streams)
	for i := range e.launches {
		e.launches[i] = none
	}
	e.awake, e.links.events = e.awake[:0], e.links.events[:0]
	for i := range p.Tasks {
		p.Tasks[i].Start = unfinished
	}
	e.cause = e.cause[:0]
	if e.Causes && (links > 0 || len(p.Members) > 0 || p.Host != nil) {
		e.cause = cleared(e.cause, len(p.Tasks))
	}
	for len(e.groups) < len(p.Members) {
		e.groups = append(e.groups, groupCollected{})
	}
	for i := range e.groups {
		e.groups[i].streams = e.groups[i].streams[:0]
	}
}

// cleared returns n zeros, in the same memory if it suffices.
func cleared[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// advance runs the tasks of a stream until one has to wait.
func (e *Packed) advance(s int32) {
	h, end, free, tasks := e.head[s], e.graph.Begin[s+1], e.free[s], e.tasks
	begin, before := h, h-1
	if h == e.graph.Begin[s] {
		before = none
	}
	for h < end {
		t := &tasks[h]
		ready, cause := free, before
		if d := t.Dep; d >= 0 {
			on := &tasks[d]
			if on.Start < 0 {
				e.wait(s, on)
				break
			}
			if at := on.Start + e.classes[on.Class].Release; at > ready {
				ready, cause = at, d
			}
		} else if d < none {
			more, there := e.graph.More[-2-d:], false
			if ready, cause, there = e.all(s, more[1:1+more[0]], ready, cause); !there {
				break
			}
		}
		c := &e.classes[t.Class]
		if c.Group >= 0 || c.Link > 0 {
			e.done, e.head[s], e.free[s] = e.done+int(h-begin), h, free
			e.queue(t, before, event{ready, t.Dep, cause, s})
			return
		}
		if e.graph.Host != nil && c.Kind.Compute() {
			ready, cause = e.launch(h, s, c, ready, cause)
		}
		free = ready + c.Busy
		e.overflow = e.overflow || ready+c.Release < ready || free < ready
		e.start(h, ready, cause)
		before, h = h, h+1
	}
	e.done, e.head[s], e.free[s] = e.done+int(h-begin), h, free
}

// released tells when the tasks have been released that a task depends on, which have all
// started: behind another on the same link it queues from then on.
func (e *Packed) released(t *graph.PackedTask) (at time.Duration) {
	if t.Dep >= 0 {
		return e.tasks[t.Dep].Start + e.classes[e.tasks[t.Dep].Class].Release
	}
	if t.Dep < none {
		more := e.graph.More[-2-t.Dep:]
		at, _, _ = e.all(none, more[1:1+more[0]], 0, none)
	}
	return at
}

// queue has the head of a stream wait for its group or its link, behind the task before it
// on the stream.
func (e *Packed) queue(t *graph.PackedTask, before int32, ev event) {
	c := &e.classes[t.Class]
	if c.Group >= 0 {
		e.join(ev.stream, c, ev.ready, ev.cause)
		return
	}
	if before != none && e.classes[e.tasks[before].Class].Link == c.Link {
		ev.ready = e.released(t)
	}
	e.links.push(ev)
}

// all finds when the last of several tasks has been released, where that is after
// ready. If one is yet to start, the stream waits for it.
func (e *Packed) all(s int32, list []int32, ready time.Duration, cause int32) (time.Duration, int32, bool) {
	for _, d := range list {
		t := &e.tasks[d]
		if t.Start < 0 {
			e.wait(s, t)
			return ready, cause, false
		}
		if at := t.Start + e.classes[t.Class].Release; at > ready {
			ready, cause = at, d
		}
	}
	return ready, cause, true
}

// wait has a stream wait for a task that is yet to start.
func (e *Packed) wait(s int32, t *graph.PackedTask) {
	e.next[s], t.Start = t.Start, time.Duration(-2-s)
}

// start starts a task and wakes the streams that waited for it.
func (e *Packed) start(i int32, at time.Duration, cause int32) {
	waiting := e.tasks[i].Start
	e.tasks[i].Start = at
	if len(e.cause) > 0 {
		e.cause[i] = cause
	}
	for waiting < unfinished {
		s := int32(-2 - waiting)
		e.awake = append(e.awake, s)
		waiting = e.next[s]
	}
}

// finish runs the head of a stream that has waited.
func (e *Packed) finish(s int32, at time.Duration, cause int32) {
	h := e.head[s]
	c := &e.classes[e.tasks[h].Class]
	e.free[s] = at + c.Busy
	if e.free[s] < at || at+c.Release < at {
		e.overflow = true
	}
	e.start(h, at, cause)
	e.head[s]++
	e.done++
}

// grant gives a link to the task that was ready first.
func (e *Packed) grant(ev event) {
	i := e.head[ev.stream]
	c := &e.classes[e.tasks[i].Class]
	start, cause := ev.ready, ev.cause
	if free := e.linkFree[c.Link]; free > start {
		start, cause = free, e.linkLast[c.Link]
	}
	e.linkFree[c.Link], e.linkLast[c.Link] = start+c.Busy, i
	e.finish(ev.stream, start, cause)
	e.awake = append(e.awake, ev.stream)
}

// join parks a stream at a fused collective, or runs it on all ranks of the group if
// they are all there.
func (e *Packed) join(s int32, c *graph.Class, ready time.Duration, cause int32) {
	g := &e.groups[c.Group]
	g.note(s, ready, cause)
	if len(g.streams) < int(e.graph.Members[c.Group]) {
		return
	}
	at, why := g.ready, g.cause
	for _, p := range g.streams {
		e.finish(p, at, why)
		if p != s {
			e.awake = append(e.awake, p)
		}
	}
	g.streams = g.streams[:0]
	e.awake = append(e.awake, s)
}
