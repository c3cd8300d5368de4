package picture

import (
	"fmt"
	"io"

	"psim/internal/units"
	"psim/reports/titles"
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
	list := make([]results.Result, len(runs))
	for i, label := range panelLabels(runs...) {
		list[i] = runs[i].Result
		panels = append(panels, Panel{Trace: runs[i].Trace, Label: label, View: v})
	}
	return Timeline(w, format, titles.Common(list...), panels...)
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
	c, labels := compare.Compare(a, b), panelLabels(a, b)
	return Timeline(w, format, compareTitle(c, a, b),
		Panel{Trace: a.Trace, Label: "A:  " + labels[0], View: v},
		Panel{Trace: b.Trace, Label: "B:  " + labels[1], View: v})
}

// compareTitle says what both runs have in common, and on a second line the differences between the
// steps that are drawn. Of a measured run, that is the step of median time; c compares the mean.
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
	switch change := units.FormatPoints(drawnB.Bubble.Makespan - drawnA.Bubble.Makespan); {
	case !computes(a.Trace.Graph) || !computes(b.Trace.Graph):
	case pipelined(a.Trace) && pipelined(b.Trace):
		difference += ", bubble " + change
	default:
		difference += ", time not computing " + change
	}
	first, second := c.Columns()
	return titles.Common(a.Result, b.Result) + "\n" + second + " against " + first + ": " + difference
}

// panelLabels name runs by what they do not have in common, with their step times and bubbles.
func panelLabels(runs ...results.Run) (labels []string) {
	list := make([]results.Result, len(runs))
	for i, r := range runs {
		list[i] = r.Result
	}
	for i, text := range titles.Differences(list...) {
		if n := runs[i].Result.StepCount(); n > 1 {
			text = titles.Join(text, fmt.Sprintf("the median of %d steps", n))
		}
		labels = append(labels, join(text, timeText(runs[i].Trace)))
	}
	return labels
}
