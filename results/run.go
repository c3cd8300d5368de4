package results

import (
	"fmt"
	"slices"
	"strings"

	"psim/schedules/graph"
)

// A Run is a result with its trace.
type Run struct {
	Result Result
	Trace  *graph.Trace // nil if unknown
}

// Drawable reports whether the run has a timeline.
func (r Run) Drawable() bool { return r.Trace != nil && r.Trace.End() > 0 }

// KindText says whether the run was predicted or measured, and which of several steps its
// trace shows.
func (r Run) KindText() string {
	if n := r.Result.StepCount(); n > 1 {
		return fmt.Sprintf("%s, the median of %d steps", r.Result.Kind, n)
	}
	return r.Result.Kind
}

// Label names the run by its configuration and schedule, and says whether it was predicted or
// measured.
func (r Run) Label() string { return r.Result.FullName() + ", " + r.KindText() }

// ScheduleText returns the usual name of the result's schedule.
func (r Result) ScheduleText() string { return ScheduleText(r.Schedule, r.FullySharded) }

// ScheduleText returns the usual name of a schedule: a fully sharded one is FSDP.
func ScheduleText(name string, sharded bool) string {
	if sharded {
		return "FSDP"
	}
	return name
}

// FullName names the result by its configuration and schedule.
func (r Result) FullName() string {
	schedule := r.ScheduleText()
	if r.Name == "" || strings.EqualFold(r.Name, schedule) {
		return schedule
	}
	return r.Name + " (" + schedule + ")"
}

// BubbleName names [BubbleResult] for runs with these numbers of stages. Only a pipeline has a
// bubble: with a single stage, communication is exposed or the device idle.
func BubbleName(stages ...int) string {
	single := func(n int) bool { return n <= 1 }
	switch first := slices.IndexFunc(stages, single); {
	case first < 0:
		return "bubble"
	case slices.ContainsFunc(stages, func(n int) bool { return !single(n) }):
		return "bubble or exposed"
	}
	return "exposed or idle"
}

// GraphText describes the graph of the run by its schedule and sizes, in the symbols of the
// literature.
func (r Result) GraphText() string {
	text := fmt.Sprintf("%s with P = %d, M = %d", r.ScheduleText(), r.Stages, r.Microbatches)
	for _, x := range []struct {
		symbol string
		size   int
	}{
		{"V", r.VirtualStages}, {"D", r.DataParallel}, {"T", r.TensorParallel},
		{"C", r.ContextParallel}, {"E", r.ExpertParallel},
	} {
		if x.size > 1 {
			text += fmt.Sprintf(", %s = %d", x.symbol, x.size)
		}
	}
	return text
}
