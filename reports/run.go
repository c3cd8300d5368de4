package reports

import (
	"fmt"
	"strings"

	"psim/schedules/graph"
)

// A Run is a result and, where that is known, its trace.
type Run struct {
	Result Result
	Trace  *graph.Trace
}

// Drawable reports whether a run has a timeline.
func (r Run) Drawable() bool { return r.Trace != nil && r.Trace.End() > 0 }

// kind says whether the run was measured, and of several steps which one its trace
// is.
func (r Run) kind() string {
	if n := r.Result.stepCount(); n > 1 {
		return fmt.Sprintf("%s, the median of %d steps", r.Result.Kind, n)
	}
	return r.Result.Kind
}

func (r Run) label() string {
	return nameText(r.Result.Name, r.Result.scheduleText()) + ", " + r.kind()
}

// scheduleText names the schedule of a run as people do.
func (r Result) scheduleText() string { return scheduleText(r.Schedule, r.FullySharded) }

func scheduleText(name string, sharded bool) string {
	if sharded {
		return "FSDP"
	}
	return name
}

// nameText names a run by its configuration and schedule.
func nameText(name, schedule string) string {
	if name == "" || strings.EqualFold(name, schedule) {
		return schedule
	}
	return name + " (" + schedule + ")"
}

func graphText(r Result) string {
	text := fmt.Sprintf("%s with P = %d, M = %d", r.scheduleText(), r.Stages, r.Microbatches)
	for _, x := range []struct {
		symbol string
		size   int
	}{{"V", r.VirtualStages}, {"D", r.DataParallel}, {"T", r.TensorParallel}, {"C", r.ContextParallel}, {"E", r.ExpertParallel}} {
		if x.size > 1 {
			text += fmt.Sprintf(", %s = %d", x.symbol, x.size)
		}
	}
	return text
}
