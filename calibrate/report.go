package calibrate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"psim/configs/machinefile"
	"psim/internal/files"
	"psim/internal/units"
	"psim/internal/wrap"
)

// WriteJSON writes the fit as an indented JSON object.
func (f *LinkFit) WriteJSON(w io.Writer) error { return files.WriteJSON(w, f) }

// WriteMachine writes the link as a machine file. A configuration that uses it must name
// the device as well.
func (f *LinkFit) WriteMachine(w io.Writer) error {
	return machinefile.WriteLink(w, f.link, f.network, f.comment())
}

// WriteTable prints the fit for people.
func (f *LinkFit) WriteTable(w io.Writer) error {
	for _, t := range f.Tables {
		fmt.Fprintf(w, "%ss: %s, of %v to %v, from %s\n\n", t.name(), units.Plural(t.Sizes, "measured time"),
			units.Bytes(t.Smallest), units.Bytes(t.Largest), strings.Join(t.Inputs, ", "))
		if err := f.writeRanges(w, t.Collective); err != nil {
			return err
		}
		fmt.Fprintf(w, "\nerror  mean %.1f %%, worst %.1f %%", 100*t.MeanError, 100*t.WorstError)
		if t.HeldOutError != nil {
			fmt.Fprintf(w, "; fitted to every second size, %.1f %% on the others", 100**t.HeldOutError)
		}
		fmt.Fprint(w, "\n\n")
	}
	fmt.Fprintf(w, "other numbers of ranks  %s, %s for a call and %s for a step\n",
		units.FormatRate(f.Link.Collective), units.FormatSeconds(f.Link.Call), units.FormatSeconds(f.Link.Latency))
	for _, text := range f.Warnings {
		fmt.Fprintf(w, "\nwarning: %s\n", wrap.Text(text, 90, "  "))
	}
	return nil
}

// name returns the name of the collective in prose.
func (t FittedTable) name() string { return strings.ReplaceAll(t.Collective, "_", "-") }

func (f *LinkFit) writeRanges(w io.Writer, collective string) error {
	table, starred := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight), false
	fmt.Fprintln(table, "ranks\tfrom\tcall\tbus bandwidth\t")
	for _, r := range f.Ranges {
		if r.Collective == collective {
			star := ""
			if f.isSlope(r) {
				star, starred = "*", true
			}
			fmt.Fprintf(table, "%d\t%s\t%s\t%s%s\t\n",
				r.Ranks, units.Bytes(r.From), units.FormatSeconds(r.Call), star, units.FormatRate(r.Bandwidth))
		}
	}
	if err := table.Flush(); err != nil || !starred {
		return err
	}
	_, err := fmt.Fprintf(w, "  * %s\n", slopeNote)
	return err
}

// slopeNote explains the bandwidth of a range for which isSlope holds.
const slopeNote = "how little times grow with the bytes: it is not a rate of the link"

func (f *LinkFit) comment() []string {
	lines := []string{fmt.Sprintf("A link, fitted to %s of nccl-tests", units.Plural(f.Sizes, "time"))}
	if f.Command != "" {
		lines = []string{lines[0] + " by", "  " + f.Command}
	}
	for _, t := range f.Tables {
		line := fmt.Sprintf("%s is from %s of %v to %v in %s: off by %.1f %% on average, %.1f %% at worst.",
			t.Collective, units.Plural(t.Sizes, "time"), units.Bytes(t.Smallest), units.Bytes(t.Largest),
			strings.Join(t.Inputs, ", "), 100*t.MeanError, 100*t.WorstError)
		lines = append(lines, line)
	}
	if slices.ContainsFunc(f.Ranges, f.isSlope) {
		lines = append(lines, "A bandwidth far above that of the largest sizes says "+slopeNote+".")
	}
	for _, text := range f.Warnings {
		lines = append(lines, "Warning: "+text+".")
	}
	return append(lines, "The rest, for other numbers of ranks, is from "+f.Tables[0].Collective+
		". Name the device next to this file.")
}
