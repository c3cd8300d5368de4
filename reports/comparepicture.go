package reports

import (
	"fmt"
	"io"
)

// CompareTimelines draws the timelines of two runs one above the other on one
// time axis, A on top, and says in the title by how much B differs. Both runs
// need a trace. Format is PNG or SVG.
func CompareTimelines(w io.Writer, format string, a, b Run) error {
	for i, run := range []Run{a, b} {
		if run.Trace == nil {
			return fmt.Errorf("%c has no trace to draw", 'A'+i)
		}
	}
	c := Compare(a, b)
	return Timeline(w, format, c.title(a, b),
		Panel{Trace: a.Trace, Label: panelLabel("A", a, c)}, Panel{Trace: b.Trace, Label: panelLabel("B", b, c)})
}

// title says what is compared and how it came out.
func (c Comparison) title(a, b Run) string {
	difference := "step " + SignedPercent(c.StepTimeError)
	if c.computes() {
		difference += ", bubble " + Points(c.BubbleError)
	}
	first, second := c.columns()
	name, size := "", ""
	switch x, y := a.Result, b.Result; {
	case graphText(x) == graphText(y) && x.Name == y.Name:
		name, size = nameText(x.Name, x.Schedule), sizeText(b.Trace.Graph)
	case graphText(x) == graphText(y):
		name, size = x.Schedule, sizeText(b.Trace.Graph)
	case x.Schedule != y.Schedule:
		first, second = x.Schedule+" (A)", y.Schedule+" (B)"
	default:
		name = x.Schedule
	}
	return join(name, size, second+" against "+first+": "+difference)
}

// panelLabel names a side, and its step time and bubble. What both sides have in
// common is in the title.
func panelLabel(side string, r Run, c Comparison) string {
	name := r.Result.Kind
	if first, _ := c.columns(); first == "A" || c.A.Name != c.B.Name || c.A.Schedule != c.B.Schedule {
		name = nameText(r.Result.Name, r.Result.Schedule) + ", " + name
	}
	return side + ":  " + join(name, timeText(r.Trace))
}
