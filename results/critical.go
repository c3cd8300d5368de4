package results

import (
	"slices"
	"time"

	"psim/schedules/graph"
)

// A CriticalPath splits the time of the chain of tasks that determines the step time: into
// work by kind, dispatch and latency. The parts add up to the step time.
type CriticalPath struct {
	Compute       float64 `json:"compute_s"`       // F, B, I, W and losses
	Communication float64 `json:"communication_s"` // messages and collectives
	Optimizer     float64 `json:"optimizer_s"`     // updates of parameters, and zeroing
	// Time in which a task is ready, but its device waits for the host.
	Dispatch float64 `json:"dispatch_s,omitempty"`
	Latency  float64 `json:"latency_s"` // time between one task and the next
}

// NewCriticalPath splits the time of a path through a trace.
func NewCriticalPath(t *graph.Trace, path []int32) *CriticalPath {
	var compute, communication, optimizer, dispatch, latency time.Duration
	walk(t, path, func(i int32, what stretchOfPath, d time.Duration) {
		switch k, inner := t.Graph.Class(i).Kind, t.Inner(i); {
		case what == launching:
			dispatch += d
		case what == following:
			latency += d
		case k.Compute() && inner != nil:
			exposed := min(d, inner.Exposed)
			compute += d - exposed
			communication += exposed
		case k.Compute():
			compute += d
		case k.Update():
			optimizer += d
		default:
			communication += d
		}
	})
	return &CriticalPath{
		Compute: compute.Seconds(), Communication: communication.Seconds(), Optimizer: optimizer.Seconds(),
		Dispatch: dispatch.Seconds(), Latency: latency.Seconds(),
	}
}

// stretchOfPath is the state of a path at a time.
type stretchOfPath uint8

const (
	running   stretchOfPath = iota // the task runs
	launching                      // the task is ready, but its device waits for the host
	following                      // the task has ended, but the next has not begun
)

// walk follows a path back from the end of the step and counts every moment once. Where a
// task waited for a host thread, the task that the thread launched before it may still run.
func walk(t *graph.Trace, path []int32, count func(i int32, what stretchOfPath, d time.Duration)) {
	now := t.End()
	back := func(i int32, what stretchOfPath, to time.Duration) { // goes back to a moment
		d := max(0, now-to)
		now -= d
		count(i, what, d)
	}
	for n, i := range slices.Backward(path) {
		span := t.Span(i)
		back(i, following, span.End)
		back(i, running, span.Start)
		if !t.KnowsReady() || t.ReadyAt(i) == span.Start {
			continue
		}
		back(i, launching, t.ReadyAt(i))
		switch {
		case n == 0:
			back(i, launching, 0)
		case t.Graph.Class(path[n-1]).Kind.Compute(): // the task waited for its thread, not for a message
			back(i, launching, t.Span(path[n-1]).End)
		}
	}
	if len(path) > 0 {
		back(path[0], following, 0)
	}
}
