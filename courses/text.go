package courses

import (
	"fmt"
	"io"
	"text/tabwriter"

	"psim/internal/units"
)

// WriteText prints a line for every run, and why runs were not measured.
func (r *Reproduction) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s, predicted for %s\n", r.course.Title, r.course.Device)
	if r.MeasuredOn != "" {
		fmt.Fprintf(w, "measured on %s\n", r.MeasuredOn)
		for _, s := range append(r.Shrunk, r.fewerSteps()...) {
			fmt.Fprintf(w, "shrunk: %s\n", s)
		}
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "run\tstep\tthroughput\t" + r.bubbleName() + "\tmemory"
	if r.MeasuredOn != "" {
		head += "\tshrunk: predicted\tmeasured\toff by"
	}
	fmt.Fprintln(table, head)
	for _, run := range r.Runs {
		p := run.Predicted
		fmt.Fprintf(table, "%s\t%s\t%s\t%.1f %%\t%s%s\n", run.Name, units.FormatSeconds(p.StepTime), rate(p),
			100*p.Bubble.Makespan, units.FormatBytes(p.PeakMemory()), r.measuredText(run))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	r.writeClaims(w)
	return nil
}

// measuredText writes the columns of a measured run.
func (r *Reproduction) measuredText(run *ReproducedRun) string {
	switch m := run.Measured; {
	case r.MeasuredOn == "":
		return ""
	case m == nil:
		return "\t\tnot measured: " + run.LeftOut + "\t"
	default:
		star := map[bool]string{true: " (disturbed)"}[m.Disturbed]
		if run.shared() {
			star = " (oversubscribed, disturbed)"
		}
		return fmt.Sprintf("\t%s\t%s ± %s\t%s%s", units.FormatSeconds(m.Predicted.StepTime),
			units.FormatSeconds(m.StepTime), units.FormatSeconds(m.StepTimeStd),
			units.FormatSignedPercent(m.StepTime/m.Predicted.StepTime-1), star)
	}
}
