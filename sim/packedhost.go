package sim

import (
	"slices"
	"time"

	"psim/schedules/graph"
)

// launch finds when a computing task, the head of a stream, can start that is ready, and
// the task that this is due to, as engine.launch does. Every rank has a thread of its own,
// and one stream that computes.
func (e *Packed) launch(i, s int32, c *graph.Class, ready time.Duration, cause int32) (time.Duration, int32) {
	begin, why, h := time.Duration(0), none, e.graph.Host
	later := func(at time.Duration, task int32) {
		if at > begin {
			begin, why = at, task
		}
	}
	if h.Thread != nil {
		later(e.launched[s], e.launches[s])
	}
	if h.Waits {
		later(ready, cause)
	}
	if full := i - int32(h.Queue); h.Queue > 0 && full >= e.graph.Begin[s] {
		later(e.tasks[full].Start, full)
	}
	e.launched[s], e.launches[s] = begin+c.Launch, i
	if start := begin + c.Lead; start > ready {
		return start, why
	}
	return ready, cause
}

// CriticalPath lists the tasks that determine when the step ends, as the function of that
// name does. Of several replicas it goes through one.
func (e *Packed) CriticalPath() []int32 {
	last, end, place := none, time.Duration(-1), int64(0)
	for s := range len(e.graph.Begin) - 1 {
		for i := e.graph.Begin[s+1] - 1; i >= e.graph.Begin[s]; i-- {
			at := e.tasks[i].Start + e.classes[e.tasks[i].Class].Busy
			if at < end {
				break
			}
			if p := e.graph.Place(i); at > end || p <= place {
				last, end, place = i, at, p
			}
		}
	}
	var path []int32
	for i := last; i != none; i = e.why(i) {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}

// why returns the task that the start of another is due to. Where none waits for a link, a
// group or a host, it started when it was ready.
func (e *Packed) why(i int32) int32 {
	if len(e.cause) > 0 {
		return e.cause[i]
	}
	_, cause := e.graph.Due(i)
	return cause
}
