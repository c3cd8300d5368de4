package reports

import (
	"fmt"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results/judged"
)

// A classRow is a row of the table of classes.
type classRow struct {
	name                string
	predicted, measured float64
	part                bool // of the row above, which only the profile has
}

// printProfile writes what the profiled step's time went to, and what the prediction's did.
func printProfile(out table.Page, h judged.Judgment) {
	p := h.Profile
	if p == nil {
		return
	}
	rows, all := []classRow{}, classRow{name: "step"}
	for _, c := range h.ByClass {
		all.predicted, all.measured = all.predicted+c.Predicted, all.measured+c.Measured
		rows = append(rows, classRow{name: className(c.Class), predicted: c.Predicted, measured: c.Measured})
		if c.Class == "communication" && p.Messages > 0 {
			rows = append(rows, classRow{name: "  sends and receives", measured: p.Messages, part: true})
		}
		if c.Class == "communication" && p.Matched > 0 {
			rows = append(rows, classRow{name: "  transfer", measured: p.Transfer, part: true},
				classRow{name: "  waiting for other ranks", measured: p.Skew, part: true})
		}
	}
	on := "1 rank"
	if p.Ranks > 1 {
		on = fmt.Sprintf("%d ranks", p.Ranks)
	}
	if p.World > p.Ranks {
		on += fmt.Sprintf(" of %d", p.World)
	}
	out.Print("\nwhat a step's time went to, by the traces of %s\n", on)
	seconds := func(of func(classRow) float64, parts bool) func(classRow) any {
		return func(r classRow) any {
			if r.part && !parts || of(r) == 0 {
				return ""
			}
			return units.FormatSeconds(of(r))
		}
	}
	measured := func(r classRow) float64 { return r.measured }
	predicted := func(r classRow) float64 { return r.predicted }
	table.Table[classRow]{Rows: append(rows, all), Columns: []table.Column[classRow]{
		{Left: true, Cell: func(r classRow) any { return r.name }},
		{Head: "predicted", Cell: seconds(predicted, false)},
		{Head: "measured", Cell: seconds(measured, true)},
		{Head: "difference", Cell: func(r classRow) any {
			if r.part {
				return ""
			}
			return signedSeconds(r.measured - r.predicted)
		}},
	}}.Text(out)
	for _, note := range profileNotes(h) {
		out.Print("  %s\n", note)
	}
}

// signedSeconds prints a difference of times.
func signedSeconds(d float64) string {
	switch {
	case d < 0:
		return "−" + units.FormatSeconds(-d)
	case d == 0:
		return units.FormatSeconds(0)
	}
	return "+" + units.FormatSeconds(d)
}

// profileNotes says how the step was found and how far its classes are known.
func profileNotes(h judged.Judgment) (notes []string) {
	p := h.Profile
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	switch {
	case p.Steps > 1:
		add("step %d, the middle one of %d that take %s to %s; found %s", p.Step, p.Steps,
			units.FormatSeconds(p.Shortest), units.FormatSeconds(p.Longest), p.Found)
	case p.Steps == 1:
		add("step %d, the only whole one; found %s", p.Step, p.Found)
	default:
		add("from the first kernel to the last, as no whole step was profiled; found %s", p.Found)
	}
	if p.Host {
		add("operations of CPUs: the traces have no kernels of a GPU")
	} else if p.Configured != "" {
		add("the device is %s by the trace, and %s by the configuration: the prediction is of another machine; --set "+
			"machine.device=NAME changes it (psim list devices)", p.Device, p.Configured)
	} else if p.Device != "" {
		add("the device is %s, by the trace", p.Device)
	}
	if off := p.StepTime/h.Measured - 1; off > 0.01 || off < -0.01 {
		add("the measured step of %s counts: the profiled one differs by %s; profiling slows the host",
			units.FormatSeconds(h.Measured), units.FormatSignedPercent(off))
	}
	if p.Messages > 0 {
		add("sends and receives last while they wait: idle time of a pipeline is in them, and in the " +
			"prediction's waiting")
	}
	switch {
	case p.Collectives == 0:
	case p.Matched == 0 && p.Ranks == 1:
		add("of communication only the exposed time is known: by the trace of one rank, waiting for other ranks " +
			"cannot be told from transfer")
	case p.Matched == 0:
		add("of communication only the exposed time is known: nothing in the traces says which collectives " +
			"belong together")
	default:
		add("of %d calls of collectives %d are known on several ranks; the shortest of each is its transfer",
			p.Collectives, p.Matched)
		if p.Incomplete > 0 {
			add("of %d of them other ranks have no trace here, and may have come later still", p.Incomplete)
		}
		if p.Last != nil {
			add("the others wait for rank %d the longest, %s", *p.Last, units.FormatSeconds(p.Waited))
		}
		add("clocks differed by %s, which is taken out; ends of a collective still differ by %s",
			units.FormatSeconds(p.Clocks), units.FormatSeconds(p.Apart))
	}
	return notes
}
