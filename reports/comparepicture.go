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
		Panel{Trace: a.Trace, Label: panelLabel(a, c)}, Panel{Trace: b.Trace, Label: panelLabel(b, c)})
}

// title says what is compared and how it came out.
func (c Comparison) title(a, b Run) string {
	difference := "step " + signedPercent(c.StepTimeError)
	if c.computes() {
		difference += ", bubble " + points(c.BubbleError)
	}
	first, second := c.columns()
	difference = second + " against " + first + ": " + difference
	if graphText(a.Result) != graphText(b.Result) {
		return difference
	}
	name := a.Result.Schedule
	if a.Result.Name == b.Result.Name && a.Result.Name != "" {
		name = a.Result.Name
		if name != a.Result.Schedule {
			name += " (" + a.Result.Schedule + ")"
		}
	}
	return join(name, sizeText(b.Trace.Graph), difference)
}

// panelLabel names one of two runs, and its step time and bubble.
func panelLabel(r Run, c Comparison) string {
	name := r.Result.Kind
	if first, _ := c.columns(); first == "A" {
		name = r.Result.Name + ", " + r.Result.Kind
	}
	return join(name, timeText(r.Trace))
}
