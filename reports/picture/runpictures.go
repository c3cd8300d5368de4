package picture

import (
	"fmt"
	"io"
	"strings"

	"psim/internal/units"
	"psim/results"
	"psim/results/compare"
	"psim/schedules/graph"
)

// Timelines draws the traces of runs one above the other on one time axis.
func Timelines(w io.Writer, format string, runs ...results.Run) error {
	return View{}.Timelines(w, format, runs...)
}

// Timelines draws what the view shows of the traces of runs, one above the other on
// one time axis.
func (v View) Timelines(w io.Writer, format string, runs ...results.Run) error {
	if len(runs) == 1 {
		return Timeline(w, format, runTitle(runs[0]), Panel{Trace: runs[0].Trace, View: v})
	}
	var panels []Panel
	for _, r := range runs {
		panels = append(panels, Panel{Trace: r.Trace, Label: r.Label(), View: v})
	}
	return Timeline(w, format, "timelines", panels...)
}

// title describes a run by its configuration and trace, and says whether it was
// measured.
func runTitle(r results.Run) string {
	title := Title(r.Trace, r.Result.TensorParallel, r.Result.ContextParallel)
	if name := r.Result.Name; name != "" && !strings.EqualFold(name, graphName(r.Trace.Graph)) {
		title = r.Result.Name + "  ·  " + title
	}
	if r.Result.Kind == results.Measured {
		title += "  ·  " + r.KindText()
	}
	return title
}

// CompareTimelines draws the timelines of two runs one above the other on one
// time axis, A on top, and says in the title by how much B differs. Both runs
// need a trace.
func CompareTimelines(w io.Writer, format string, a, b results.Run) error {
	return View{}.Compare(w, format, a, b)
}

// Compare draws what the view shows of two runs, as CompareTimelines does.
func (v View) Compare(w io.Writer, format string, a, b results.Run) error {
	for i, run := range []results.Run{a, b} {
		if run.Trace == nil {
			return fmt.Errorf("%c has no trace to draw", 'A'+i)
		}
	}
	c := compare.Compare(a, b)
	return Timeline(w, format, compareTitle(c, a, b),
		Panel{Trace: a.Trace, Label: panelLabel("A", a, c), View: v}, Panel{Trace: b.Trace, Label: panelLabel("B", b, c), View: v})
}

// title says what is compared and how it came out, by the steps that are drawn: of a
// measured run that of the median time, and not the mean that c is of.
func compareTitle(c compare.Comparison, a, b results.Run) string {
	drawnA, drawnB := graph.Summarize(a.Trace), graph.Summarize(b.Trace)
	difference := "step " + units.FormatSignedPercent(compare.Fraction((drawnB.StepTime-drawnA.StepTime).Seconds(), drawnA.StepTime.Seconds()))
	if a.Result.StepCount() > 1 || b.Result.StepCount() > 1 {
		difference = "median " + difference
	}
	if computes(a.Trace.Graph) && computes(b.Trace.Graph) {
		difference += ", bubble " + units.FormatPoints(drawnB.Bubble.Makespan-drawnA.Bubble.Makespan)
	}
	first, second := c.Columns()
	name, size := "", ""
	switch x, y := a.Result, b.Result; {
	case x.GraphText() == y.GraphText() && x.Name == y.Name:
		name, size = x.FullName(), sizeText(b.Trace.Graph)
	case x.GraphText() == y.GraphText():
		name, size = x.ScheduleText(), sizeText(b.Trace.Graph)
	case x.ScheduleText() != y.ScheduleText():
		first, second = x.ScheduleText()+" (A)", y.ScheduleText()+" (B)"
	default:
		name = x.ScheduleText()
	}
	return join(name, size, second+" against "+first+": "+difference)
}

// panelLabel names a side, and its step time and bubble. What both sides have in
// common is in the title.
func panelLabel(side string, r results.Run, c compare.Comparison) string {
	name := r.KindText()
	if first, _ := c.Columns(); first == "A" || c.A.Name != c.B.Name || c.A.FullName != c.B.FullName {
		name = r.Result.FullName() + ", " + name
	}
	return side + ":  " + join(name, timeText(r.Trace))
}
