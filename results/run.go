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

// Shown returns the result with the times of the step that the trace and the pictures show: of
// several measured steps, those of the one of median time rather than means.
func (r Run) Shown() Result {
	shown := r.Result
	if r.Trace == nil || shown.StepCount() < 2 {
		return shown
	}
	s := graph.Summarize(r.Trace)
	shown.StepTime, shown.Makespan, shown.Startup = s.StepTime.Seconds(), s.Makespan.Seconds(), s.Startup.Seconds()
	shown.Bubble = BubbleResult{Makespan: s.Bubble.Makespan, Span: s.Bubble.Span}
	shown.Ranks = slices.Clone(shown.Ranks)
	for i := range shown.Ranks {
		shown.Ranks[i].setTimes(s.Ranks[i], r.Trace.KnowsReady())
	}
	return shown
}

// ScheduleText returns the usual name of the result's schedule.
func (r Result) ScheduleText() string {
	text := ScheduleText(r.Schedule, r.FullySharded)
	if r.Hybrid() {
		text = strings.Replace(text, "FSDP", "HSDP", 1)
	}
	return text
}

// Hybrid reports whether parameters are sharded among groups of replicas, and are whole in every group.
func (r Result) Hybrid() bool {
	return r.FullySharded && r.ZeroGroup > 1 && r.ZeroGroup < r.DataParallel
}

// ScheduleText returns the usual name of a schedule: a fully sharded one is FSDP, or a pipeline with FSDP.
func ScheduleText(name string, sharded bool) string {
	switch {
	case sharded && name == "ddp":
		return "FSDP"
	case sharded:
		return name + " with FSDP"
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
