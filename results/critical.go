package results

import (
	"slices"
	"time"

	"psim/schedules/graph"
)

// A CriticalPath splits the chain of tasks that determines the step time into
// seconds of work, by kind, of dispatch, in which a task is ready and its device
// waits for the host, and of latency between one task and the next. They add up to
// the step time.
type CriticalPath struct {
	Compute       float64 `json:"compute_s"`            // F, B, I and W
	Communication float64 `json:"communication_s"`      // messages and collectives
	Optimizer     float64 `json:"optimizer_s"`          // updates of parameters
	Dispatch      float64 `json:"dispatch_s,omitempty"` // a task is ready, and its device waits for the host
	Latency       float64 `json:"latency_s"`            // between one task and the next
}

// NewCriticalPath splits the time that a path of a trace covers.
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
		case k == graph.Optimizer:
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

// stretchOfPath tells what a path does at a time.
type stretchOfPath uint8

const (
	running   stretchOfPath = iota // the task
	launching                      // it is ready, and its device waits for the host
	following                      // the task has ended, and what depends on it has not begun
)

// walk follows a path back from the end of the step, so that every moment counts once:
// where a task waited for what a host thread launched before it, that one may still run.
func walk(t *graph.Trace, path []int32, count func(i int32, what stretchOfPath, d time.Duration)) {
	now := t.End()
	back := func(i int32, what stretchOfPath, to time.Duration) { // to a moment
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
		case t.Graph.Class(path[n-1]).Kind.Compute(): // its thread, not a message, let this one start
			back(i, launching, t.Span(path[n-1]).End)
		}
	}
	if len(path) > 0 {
		back(path[0], following, 0)
	}
}
