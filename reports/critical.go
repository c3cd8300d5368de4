package reports

import (
	"strings"
	"time"

	"psim/schedules"
)

// A CriticalPath splits the chain of tasks that determines the step time into
// seconds of work, by kind, and of latency between one task and the next. They
// add up to the step time.
type CriticalPath struct {
	Compute       float64 `json:"compute_s"`
	Communication float64 `json:"communication_s"`
	Optimizer     float64 `json:"optimizer_s"`
	Latency       float64 `json:"latency_s"`
}

// NewCriticalPath adds up the tasks of a path of a trace.
func NewCriticalPath(t *schedules.Trace, path []int32) *CriticalPath {
	var compute, communication, optimizer time.Duration
	for _, i := range path {
		d, k := t.Spans[i].Duration(), t.Graph.Tasks[i].Kind
		switch {
		case k.Compute() && t.Inner != nil:
			compute += d - t.Inner[i].Exposed
			communication += t.Inner[i].Exposed
		case k.Compute():
			compute += d
		case k == schedules.Optimizer:
			optimizer += d
		default:
			communication += d
		}
	}
	return &CriticalPath{
		Compute: compute.Seconds(), Communication: communication.Seconds(), Optimizer: optimizer.Seconds(),
		Latency: (t.End() - compute - communication - optimizer).Seconds(),
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
	}{{"compute", c.Compute}, {"communication", c.Communication}, {"latency", c.Latency}, {"optimizer", c.Optimizer}} {
		if p.seconds > 0 {
			parts = append(parts, percent(p.seconds/step)+" "+p.name)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ")
}
