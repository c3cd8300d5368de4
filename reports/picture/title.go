package picture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"psim/internal/units"
	"psim/results"
	"psim/schedules/graph"
)

// Title describes a trace in a line: its schedule, size, step time and bubble. The tensor-
// and context-parallel sizes must be given, because a trace does not know how many devices a
// rank stands for.
func Title(t *graph.Trace, tensor, context int) string {
	size := sizeText(t.Graph)
	if tensor > 1 {
		size += fmt.Sprintf(", T = %d", tensor)
	}
	if context > 1 {
		size += fmt.Sprintf(", C = %d", context)
	}
	if e := t.Graph.Experts; e.Span > 0 && t.Graph.Members(e.Exchange) > 1 {
		size += fmt.Sprintf(", E = %d", t.Graph.Members(e.Exchange))
	}
	return join(graphName(t.Graph), size, timeText(t))
}

func graphName(g *graph.Graph) string { return results.ScheduleText(g.Name, g.Layered) }

// UnitTitle is like Title, but counts time in units. It is for orders without costs.
func UnitTitle(t *graph.Trace, unit time.Duration) string {
	step := strconv.FormatFloat(float64(t.End())/float64(unit), 'g', -1, 64)
	bubble := 100 * graph.Summarize(t).Bubble.Makespan
	return join(t.Graph.Name, sizeText(t.Graph), fmt.Sprintf("%s units  ·  %s %.1f %%", step, bubbleName(t), bubble))
}

// join joins the non-empty parts with dots.
func join(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return strings.Join(parts, "  ·  ")
}

// sizeText returns the size of a schedule, or of a collective by itself, in the symbols of
// the literature.
func sizeText(g *graph.Graph) string {
	if !computes(g) {
		return fmt.Sprintf("N = %d", g.Ranks())
	}
	text := fmt.Sprintf("P = %d, M = %d", g.Shape.Ranks, g.Shape.Microbatches)
	if g.Shape.Virtual > 1 {
		text += fmt.Sprintf(", V = %d", g.Shape.Virtual)
	}
	if g.Shape.Replicas > 1 {
		text += fmt.Sprintf(", D = %d", g.Shape.Replicas)
	}
	return text
}

// timeText returns the step time and the bubble, or how long a collective takes.
func timeText(t *graph.Trace) string {
	if !computes(t.Graph) {
		return units.FormatDuration(t.End())
	}
	s := graph.Summarize(t)
	return fmt.Sprintf("step %s  ·  %s %.1f %%", units.FormatDuration(s.StepTime), bubbleName(t), 100*s.Bubble.Makespan)
}

// bubbleName says what the bubble of traces is.
func bubbleName(traces ...*graph.Trace) string {
	var stages []int
	for _, t := range traces {
		stages = append(stages, t.Graph.Shape.Ranks)
	}
	return results.BubbleName(stages...)
}
