package results

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

// KindText says whether the run was measured, and of several steps which one its trace
// is.
func (r Run) KindText() string {
	if n := r.Result.StepCount(); n > 1 {
		return fmt.Sprintf("%s, the median of %d steps", r.Result.Kind, n)
	}
	return r.Result.Kind
}

// Label names a run by its configuration and schedule, and says whether it was measured.
func (r Run) Label() string {
	return FullName(r.Result.Name, r.Result.ScheduleText()) + ", " + r.KindText()
}

// ScheduleText names the schedule of a run as people do.
func (r Result) ScheduleText() string { return ScheduleText(r.Schedule, r.FullySharded) }

// ScheduleText names a schedule as people do.
func ScheduleText(name string, sharded bool) string {
	if sharded {
		return "FSDP"
	}
	return name
}

// FullName names a run by its configuration and schedule.
func FullName(name, schedule string) string {
	if name == "" || strings.EqualFold(name, schedule) {
		return schedule
	}
	return name + " (" + schedule + ")"
}

// GraphText names the graph of a run by its schedule and sizes, in the symbols of the literature.
func GraphText(r Result) string {
	text := fmt.Sprintf("%s with P = %d, M = %d", r.ScheduleText(), r.Stages, r.Microbatches)
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
