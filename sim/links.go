package sim

import (
	"time"

	"psim/schedules/graph"
)

// since tells from when on the head of a stream queues for its link, where it is ready at a
// time: behind a task of its stream on the same link from when what it depends on has ended.
func (e *engine) since(s, i int32, ready time.Duration, cost *graph.Cost) time.Duration {
	if last := e.last[s]; last == none || e.costs.Task(&e.graph.Tasks[last]).Link != cost.Link {
		return ready
	}
	var at time.Duration
	for _, d := range e.graph.Deps(i) {
		at = max(at, e.released[d])
	}
	return at
}

// queue has the head of a stream queue for its link.
func (e *engine) queue(s int32, ev event, cost *graph.Cost) {
	e.pending[s] = *cost
	e.links.push(ev)
}

// grant gives a link to the task that was ready first.
func (e *engine) grant(ev event) {
	t := &e.graph.Tasks[ev.task]
	cost := &e.pending[t.Stream]
	for int(cost.Link) >= len(e.linkFree) {
		e.linkFree, e.linkLast = append(e.linkFree, 0), append(e.linkLast, none)
	}
	start, cause := ev.ready, ev.cause
	if free := e.linkFree[cost.Link]; free > start {
		start, cause = free, e.linkLast[cost.Link]
	}
	e.finish(ev.task, start, cause, cost)
	e.linkFree[cost.Link], e.linkLast[cost.Link] = start+cost.Busy, ev.task
	e.wake(t.Stream)
}
