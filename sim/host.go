package sim

import (
	"time"

	"psim/schedules/graph"
)

// launchedBefore finds the task that has to be launched before task i and has not
// been, or none.
func (e *engine) launchedBefore(i int32) int32 {
	if b := e.threadBefore(i); b != none && e.released[b] == unfinished {
		return b
	}
	return none
}

// threadBefore finds the task that the thread of task i launches before it, or
// none.
func (e *engine) threadBefore(i int32) int32 {
	if e.costs.Host == nil || e.costs.Host.Before == nil {
		return none
	}
	return e.costs.Host.Before[i]
}

// launch finds when a task that is ready can start, and the task that this is due
// to: its host thread has to have launched its kernels in time.
func (e *engine) launch(i int32, ready time.Duration, cause int32, cost graph.Cost) (time.Duration, int32) {
	if e.launched == nil {
		return ready, cause
	}
	e.trace.Ready[i] = ready
	begin, why := time.Duration(0), none
	later := func(at time.Duration, task int32) {
		if at > begin {
			begin, why = at, task
		}
	}
	if b := e.threadBefore(i); b != none {
		later(e.launched[b], b)
	}
	if e.costs.Host.Waits {
		later(ready, cause)
	}
	stream := e.graph.Tasks[i].Stream
	if at := e.head[stream] - int32(e.costs.Host.Queue); e.costs.Host.Queue > 0 && at >= e.first[stream] {
		full := e.order[at]
		later(e.trace.Spans[full].Start, full)
	}
	e.launched[i] = begin + cost.Launch
	if start := begin + cost.LaunchLead; start > ready {
		return start, why
	}
	return ready, cause
}
