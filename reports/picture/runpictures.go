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

// Timelines draws the part of the traces of runs that the view shows, one above the other on
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

// runTitle describes a run by its configuration and trace, and says whether it was measured.
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

// CompareTimelines draws the timelines of two runs one above the other on one time axis,
// with A on top, and says in the title by how much B differs. Both runs need a trace.
func CompareTimelines(w io.Writer, format string, a, b results.Run) error {
	return View{}.Compare(w, format, a, b)
}

// Compare draws the part of two runs that the view shows, like CompareTimelines.
func (v View) Compare(w io.Writer, format string, a, b results.Run) error {
	for i, run := range []results.Run{a, b} {
		if run.Trace == nil {
			return fmt.Errorf("%c has no trace to draw", 'A'+i)
		}
	}
	c := compare.Compare(a, b)
	return Timeline(w, format, compareTitle(c, a, b),
		Panel{Trace: a.Trace, Label: panelLabel("A", a, c), View: v},
		Panel{Trace: b.Trace, Label: panelLabel("B", b, c), View: v})
}

// compareTitle says what is compared, and the differences between the steps that are drawn.
// Of a measured run, that is the step of median time; c compares the mean.
func compareTitle(c compare.Comparison, a, b results.Run) string {
	drawnA, drawnB := graph.Summarize(a.Trace), graph.Summarize(b.Trace)
	longer := (drawnB.StepTime - drawnA.StepTime).Seconds()
	difference := "step " + units.FormatSignedPercent(compare.Fraction(longer, drawnA.StepTime.Seconds()))
	if a.Result.StepCount() > 1 || b.Result.StepCount() > 1 {
		difference = "median " + difference
	}
	if c.WorkDiffers != nil && !c.ThroughputDifference.IsZero() {
		difference = "throughput " + units.FormatSignedPercent(float64(c.ThroughputDifference)) + ", " + difference
	}
	if computes(a.Trace.Graph) && computes(b.Trace.Graph) {
		points := units.FormatPoints(drawnB.Bubble.Makespan - drawnA.Bubble.Makespan)
		difference += fmt.Sprintf(", %s %s", bubbleName(a.Trace, b.Trace), points)
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

// panelLabel names a side, with its step time and bubble. The title says what both sides
// have in common.
func panelLabel(side string, r results.Run, c compare.Comparison) string {
	name := r.KindText()
	if first, _ := c.Columns(); first == "A" || c.A.Name != c.B.Name || c.A.FullName != c.B.FullName {
		name = r.Result.FullName() + ", " + name
	}
	return side + ":  " + join(name, timeText(r.Trace))
}
