package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"psim/internal/units"
	"psim/internal/wrap"
)

// write prints the fit, and what to do next.
func (c *ncclCalibration) write(w io.Writer) error {
	for _, t := range c.Tables {
		fmt.Fprintf(w, "%ss: %s, of %v to %v, from %s\n\n", t.name(), units.Plural(t.Sizes, "time"), units.Bytes(t.Smallest), units.Bytes(t.Largest), strings.Join(t.Inputs, ", "))
		if err := c.writeRanges(w, t.Collective); err != nil {
			return err
		}
		fmt.Fprintf(w, "\nerror  mean %.1f %%, worst %.1f %%", 100*t.MeanError, 100*t.WorstError)
		if t.HeldOutError != nil {
			fmt.Fprintf(w, "; fitted to every second size, %.1f %% on the others", 100**t.HeldOutError)
		}
		fmt.Fprint(w, "\n\n")
	}
	fmt.Fprintf(w, "other numbers of ranks  %s, %s for a call and %s for a step\n", units.FormatRate(c.Link.Collective), span(c.Link.Call), span(c.Link.Latency))
	for _, text := range c.Warnings {
		fmt.Fprintf(w, "\nwarning: %s\n", wrap.Text(text, 90, "  "))
	}
	_, err := fmt.Fprintf(w, "\nwrote %s; use it with\n  psim run CONFIG --set %s --set machine.device=DEVICE\nwhere all devices are in one node, and otherwise with file = %q in [machine]\n", c.File, quoted("machine.file="+c.File), c.File)
	return err
}

// name is how the collective is called in prose.
func (t ncclTable) name() string { return strings.ReplaceAll(t.Collective, "_", "-") }

// writeRanges prints the table of one kind of collective.
func (c *ncclCalibration) writeRanges(w io.Writer, collective string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ranks\tfrom\tcall\tbus bandwidth\t")
	for _, r := range c.Ranges {
		if r.Collective == collective {
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t\n", r.Ranks, units.Bytes(r.From), span(r.Call), units.FormatRate(r.Bandwidth))
		}
	}
	return table.Flush()
}

// comment heads the file.
func (c *ncclCalibration) comment() []string {
	lines := []string{
		fmt.Sprintf("A link, fitted to %s of nccl-tests by", units.Plural(c.Sizes, "time")),
		"  " + c.Command,
	}
	for _, t := range c.Tables {
		lines = append(lines, fmt.Sprintf("%s is from %s of %v to %v in %s: off by %.1f %% on average, %.1f %% at worst.",
			t.Collective, units.Plural(t.Sizes, "time"), units.Bytes(t.Smallest), units.Bytes(t.Largest), strings.Join(t.Inputs, ", "), 100*t.MeanError, 100*t.WorstError))
	}
	for _, text := range c.Warnings {
		lines = append(lines, "Warning: "+text+".")
	}
	return append(lines, "The rest, for other numbers of ranks, is from "+c.Tables[0].Collective+". Name the device beside this file.")
}
