package picture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"psim/internal/units"
	"psim/reports/titles"
	"psim/results"
	"psim/schedules/graph"
)

// runTitle describes a run in words, and on a second line says how long its step takes.
func runTitle(r results.Run) string {
	below := resultTimeText(r.Result)
	if r.Trace != nil {
		below = timeText(r.Trace)
	}
	if n := r.Result.StepCount(); n > 1 {
		below = join(below, fmt.Sprintf("the median of %d steps", n))
	}
	return titles.Of(r.Result) + "\n" + below
}

// graphTitle describes a trace by its graph, if there is no result.
func graphTitle(t *graph.Trace) string { return graphText(t.Graph) + "\n" + timeText(t) }

// graphText names a graph's schedule and its sizes.
func graphText(g *graph.Graph) string {
	name := titles.ScheduleNamed(g.Name, g.FullySharded)
	if !computes(g) {
		return titles.Join(name, units.Plural(g.Ranks(), "rank"))
	}
	return titles.Join(name, titles.Shape(g.Shape.Ranks, g.Shape.Virtual, g.Shape.Microbatches, g.Shape.Replicas))
}

// UnitTitle describes the trace of an order without costs in two lines. It counts time in units.
func UnitTitle(t *graph.Trace, unit time.Duration) string {
	step := strconv.FormatFloat(float64(t.End())/float64(unit), 'g', -1, 64)
	return graphText(t.Graph) + "\n" + join(step+" units", idleText(t, graph.Summarize(t)))
}

// join joins the non-empty parts with dots.
func join(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, "  ·  ")
}

// timeText returns the step time and the bubble, or how long a collective takes.
func timeText(t *graph.Trace) string {
	if !computes(t.Graph) {
		return units.FormatDuration(t.End())
	}
	s := graph.Summarize(t)
	return join("step "+units.FormatDuration(s.StepTime), idleText(t, s))
}

// resultTimeText returns what timeText does, as far as a result without its trace knows it. Of several
// measured steps it has the bubble of their mean, not that of the step whose memory was saved.
func resultTimeText(r results.Result) string {
	step := units.FormatSeconds(r.TracedStep())
	switch {
	case r.Config["collective"] != nil:
		return step
	case r.StepCount() > 1:
		return "step " + step
	case r.Stages > 1:
		return join("step "+step, "bubble "+units.FormatPercent(r.Bubble.Makespan))
	}
	return join("step "+step, units.FormatPercent(r.Bubble.Makespan)+" not computing")
}

// idleText returns the share of the makespan in which ranks do not compute. Only in a pipeline it is
// a bubble.
func idleText(t *graph.Trace, s graph.Summary) string {
	if !pipelined(t) {
		return units.FormatPercent(s.Bubble.Makespan) + " not computing"
	}
	return "bubble " + units.FormatPercent(s.Bubble.Makespan)
}

// pipelined reports whether a trace is of several stages.
func pipelined(t *graph.Trace) bool { return t.Graph.Shape.Ranks > 1 }
