package reports

import (
	"fmt"
	"io"
	"strings"

	"psim/schedules/graph"
)

// Timelines draws the traces of runs one above the other on one time axis.
func Timelines(w io.Writer, format string, runs ...Run) error {
	return View{}.Timelines(w, format, runs...)
}

// Timelines draws what the view shows of the traces of runs, one above the other on
// one time axis.
func (v View) Timelines(w io.Writer, format string, runs ...Run) error {
	if len(runs) == 1 {
		return Timeline(w, format, runs[0].title(), Panel{Trace: runs[0].Trace, View: v})
	}
	var panels []Panel
	for _, r := range runs {
		panels = append(panels, Panel{Trace: r.Trace, Label: r.label(), View: v})
	}
	return Timeline(w, format, "timelines", panels...)
}

// title describes a run by its configuration and trace, and says whether it was
// measured.
func (r Run) title() string {
	title := Title(r.Trace, r.Result.TensorParallel, r.Result.ContextParallel)
	if name := r.Result.Name; name != "" && !strings.EqualFold(name, graphName(r.Trace.Graph)) {
		title = r.Result.Name + "  ·  " + title
	}
	if r.Result.Kind == Measured {
		title += "  ·  " + r.kind()
	}
	return title
}

// CompareTimelines draws the timelines of two runs one above the other on one
// time axis, A on top, and says in the title by how much B differs. Both runs
// need a trace.
func CompareTimelines(w io.Writer, format string, a, b Run) error {
	return View{}.Compare(w, format, a, b)
}

// Compare draws what the view shows of two runs, as CompareTimelines does.
func (v View) Compare(w io.Writer, format string, a, b Run) error {
	for i, run := range []Run{a, b} {
		if run.Trace == nil {
			return fmt.Errorf("%c has no trace to draw", 'A'+i)
		}
	}
	c := Compare(a, b)
	return Timeline(w, format, c.title(a, b),
		Panel{Trace: a.Trace, Label: panelLabel("A", a, c), View: v}, Panel{Trace: b.Trace, Label: panelLabel("B", b, c), View: v})
}

// title says what is compared and how it came out, by the steps that are drawn: of a
// measured run that of the median time, and not the mean that c is of.
func (c Comparison) title(a, b Run) string {
	drawnA, drawnB := graph.Summarize(a.Trace), graph.Summarize(b.Trace)
	difference := "step " + SignedPercent(fraction((drawnB.StepTime-drawnA.StepTime).Seconds(), drawnA.StepTime.Seconds()))
	if a.Result.stepCount() > 1 || b.Result.stepCount() > 1 {
		difference = "median " + difference
	}
	if computes(a.Trace.Graph) && computes(b.Trace.Graph) {
		difference += ", bubble " + Points(drawnB.Bubble.Makespan-drawnA.Bubble.Makespan)
	}
	first, second := c.columns()
	name, size := "", ""
	switch x, y := a.Result, b.Result; {
	case graphText(x) == graphText(y) && x.Name == y.Name:
		name, size = nameText(x.Name, x.scheduleText()), sizeText(b.Trace.Graph)
	case graphText(x) == graphText(y):
		name, size = x.scheduleText(), sizeText(b.Trace.Graph)
	case x.scheduleText() != y.scheduleText():
		first, second = x.scheduleText()+" (A)", y.scheduleText()+" (B)"
	default:
		name = x.scheduleText()
	}
	return join(name, size, second+" against "+first+": "+difference)
}

// panelLabel names a side, and its step time and bubble. What both sides have in
// common is in the title.
func panelLabel(side string, r Run, c Comparison) string {
	name := r.kind()
	if first, _ := c.columns(); first == "A" || c.A.Name != c.B.Name || c.A.text != c.B.text {
		name = nameText(r.Result.Name, r.Result.scheduleText()) + ", " + name
	}
	return side + ":  " + join(name, timeText(r.Trace))
}
