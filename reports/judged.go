package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results/judged"
)

// WriteJudgment writes a measured step that was held against its prediction: the verdict first.
func WriteJudgment(w io.Writer, h judged.Judgment, precision string) error {
	out := table.NewPage(w)
	expected := units.FormatSeconds(h.Predicted) + " expected"
	if i := h.Interval; i != nil {
		expected += fmt.Sprintf(" (%s to %s in %.0f %% of such runs)", units.FormatSeconds(i.Low),
			units.FormatSeconds(i.High), 100*i.Coverage)
	} else if h.Missing != "" {
		expected += " (no interval: " + h.Missing + ")"
	}
	measured := units.FormatSeconds(h.Measured)
	switch h.Verdict {
	case judged.Incomparable:
		out.Print("no verdict: %s\n%s measured, %s\n", strings.Join(h.OtherWork, "; "), measured, expected)
	case judged.Inside:
		out.Print("nothing is wrong: %s, %s\n", measured, expected)
	case judged.Inconsistent:
		out.Print("cannot be: %s would be %s of this device's peak in %s, and large products reach %s; "+
			"are the devices, the batch and the precision right? %s\n",
			measured, units.FormatPercent(h.Rate), precision, units.FormatPercent(h.Reach), expected)
	default:
		difference := units.FormatSignedPercent(h.Measured/h.Predicted - 1)
		out.Print("%s: %s, %s: %s\n", h.Verdict, measured, expected, difference)
	}
	for _, other := range slices.Concat(h.Misread, h.OtherPlan) {
		out.Print("%s\n", other)
	}
	printMemory(out, h.Memory)
	printProfile(out, h)
	for i, a := range h.Assumptions {
		if i == 0 {
			out.Print("\n%s\n", assumptionsTitle(h))
		}
		out.Print("  %12s  --set %s: %s\n", units.FormatSeconds(a.StepTime), strings.Join(a.Set, " --set "), a.Means)
	}
	const most = 10 // changes
	for i, g := range h.Changes[:min(most, len(h.Changes))] {
		if i == 0 {
			out.Print("\nwhat one change each would give here: the measured step times a ratio of predictions%s\n",
				map[bool]string{true: " (how likely it is faster)"}[g.Faster != nil])
		}
		out.Print("  %12s  %9s%s  --set %s\n", units.FormatSeconds(g.MeasuredStep),
			units.FormatSignedPercent(g.StepTime/h.Predicted-1), chance(g.Faster, "  "), strings.Join(g.Set, " --set "))
	}
	printBetter(out, h)
	return out.Flush()
}

// assumptionsTitle says whether an assumption explains the measured step: whether it is in the interval that the
// prediction would have then, as wide as the one that it has. Without an interval nobody knows.
func assumptionsTitle(h judged.Judgment) string {
	if h.Interval == nil {
		return "the step with one assumption at a time, the nearest first"
	}
	explains := func(a judged.Assumption) bool {
		ratio := h.Measured / a.StepTime
		return ratio >= h.Interval.Low/h.Predicted && ratio <= h.Interval.High/h.Predicted
	}
	if slices.ContainsFunc(h.Assumptions, explains) {
		return "what would explain it, one at a time, the nearest first"
	}
	return "nothing that psim knows explains it alone; one at a time, the nearest first"
}

// printMemory writes the memory that a log prints next to the prediction.
func printMemory(out table.Page, m *judged.LoggedMemory) {
	if m == nil {
		return
	}
	if m.Allocated > 0 {
		out.Print("memory of tensors: %s at the log's highest peak, %s predicted: %s\n", units.FormatBytes(m.Allocated),
			units.FormatBytes(m.Tensors), units.FormatSignedPercent(float64(m.Allocated)/float64(m.Tensors)-1))
	}
	if m.Reserved > 0 {
		of := ""
		if m.Capacity > 0 {
			of = " of " + units.FormatBytes(m.Capacity)
		}
		out.Print("memory that PyTorch reserves: %s at the highest; a process is predicted to need %s%s: %s\n",
			units.FormatBytes(m.Reserved), units.FormatBytes(m.Peak), of, m.Verdict)
	}
}

// printBetter writes the fastest plan, and what to change in the script.
func printBetter(out table.Page, h judged.Judgment) {
	b := h.Better
	switch {
	case b == nil && h.Searched:
		out.Print("\nno plan that this program offers for these devices is faster by more than 1 %%\n")
		return
	case b == nil:
		return
	}
	name := "the fastest plan that this program offers for these devices"
	if b.Partial {
		name = "the fastest plan of those that were looked at in time"
	}
	out.Print("\n%s: %s here, %s%s\n  --set %s\n", name, units.FormatSeconds(h.BetterMeasured),
		units.FormatSignedPercent(b.StepTime/h.Predicted-1), chance(b.Faster, " "), strings.Join(b.Set, " --set "))
	switch {
	case h.Patch != "":
		out.Print("\nin the files %s\n%s", differs(h.PatchedLines), h.Patch)
	case h.Unpatched != "":
		out.Print("  no change of the script: %s\n", h.Unpatched)
	}
}

// chance writes a probability, after a space; nothing where it is not known.
func chance(p *float64, space string) string {
	if p == nil {
		return ""
	}
	if *p > 0.995 {
		return space + "(> 99 %)"
	}
	return fmt.Sprintf("%s(%.0f %%)", space, 100**p)
}

// differs says how many lines differ.
func differs(n int) string {
	if n == 1 {
		return "1 line differs"
	}
	return fmt.Sprintf("%d lines differ", n)
}
