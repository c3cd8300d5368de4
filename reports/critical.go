package reports

import (
	"slices"
	"strings"
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

// NewCriticalPath splits the time that a path of a trace covers. It follows the
// path back from the end of the step, so that every moment counts once: where a
// task waited for what a host thread launched before it, that one may still run.
func NewCriticalPath(t *graph.Trace, path []int32) *CriticalPath {
	var compute, communication, optimizer, dispatch, latency time.Duration
	now := t.End()
	back := func(to time.Duration) time.Duration { // how long it is back to a moment
		d := max(0, now-to)
		now -= d
		return d
	}
	for n, i := range slices.Backward(path) {
		latency += back(t.Spans[i].End)
		d, k := back(t.Spans[i].Start), t.Graph.Tasks[i].Kind
		switch {
		case k.Compute() && t.Inner != nil:
			exposed := min(d, t.Inner[i].Exposed)
			compute += d - exposed
			communication += exposed
		case k.Compute():
			compute += d
		case k == graph.Optimizer:
			optimizer += d
		default:
			communication += d
		}
		if t.Ready == nil || t.Ready[i] == t.Spans[i].Start {
			continue
		}
		switch dispatch += back(t.Ready[i]); {
		case n == 0:
			dispatch += back(0)
		case t.Graph.Tasks[path[n-1]].Kind.Compute(): // its thread, not a message, let this one start
			dispatch += back(t.Spans[path[n-1]].End)
		}
	}
	return &CriticalPath{
		Compute: compute.Seconds(), Communication: communication.Seconds(), Optimizer: optimizer.Seconds(),
		Dispatch: dispatch.Seconds(), Latency: (latency + back(0)).Seconds(),
	}
}

// text says what the longest chain of tasks is made of, leaving out what it
// has none of; nothing where it is not known.
func (c *CriticalPath) text(step float64) string {
	if c == nil || step <= 0 {
		return ""
	}
	var parts []string
	for _, p := range []struct {
		name    string
		seconds float64
	}{{"compute", c.Compute}, {"communication", c.Communication}, {"dispatch", c.Dispatch}, {"latency", c.Latency}, {"optimizer", c.Optimizer}} {
		if p.seconds > 0 {
			parts = append(parts, percent(p.seconds/step)+" "+p.name)
		}
	}
	return strings.Join(parts, ", ")
}
