package layers

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"text/tabwriter"

	"psim/exec/backend"
	"psim/internal/files"
	"psim/internal/units"
)

// WriteText prints the table, and the command to use next; "" if no file was written.
func (c *Calibration) WriteText(w io.Writer, next string) error {
	fmt.Fprintf(w, "%s in fp32 on %s\n\n", c.Model, c.CPU)
	if err := c.writeLayers(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nother layers  %s and %s, %s for every operation (off by %.0f %% of the time of these layers)\n",
		units.FormatFLOPS(c.FLOPS), orUnlimited(c.Bandwidth), units.FormatSeconds(c.Launch), 100*c.FitError)
	if c.Optimizer.Rate > 0 {
		fmt.Fprintf(w, "%-13s %s of parameters, %s for every tensor\n",
			c.Optimizer.Name, units.FormatRate(c.Optimizer.Rate), units.FormatSeconds(c.Optimizer.PerTensor))
	}
	fmt.Fprintf(w, "copies        %s, %s for each\n",
		units.FormatRate(c.Link.Bandwidth), units.FormatSeconds(c.Link.Latency))
	fmt.Fprintf(w, "all-reduces   %s, %s for each\n",
		units.FormatRate(c.Link.Collective), units.FormatSeconds(c.Link.Call+2*c.Link.Latency))
	fmt.Fprintf(w, "calls         %s for a program that does nothing (included above)\n", units.FormatSeconds(c.Call))
	if n := c.Cores; n != nil {
		fmt.Fprintf(w, "neighbours    forwards %.2f, backwards %.2f, updates %.2f, averages %.2f "+
			"times as long while all %d cores compute\n", n.Forward, n.Backward, n.Update, n.Average, n.Number)
	}
	for _, warning := range c.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	if next == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nwrote %s; use it with\n  %s\n", c.File, next)
	return err
}

// writeLayers prints a line for every layer.
func (c *Calibration) writeLayers(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "layer\tsamples\tF\tB\tI\tW\tGFLOP/s in F\tin B\t")
	for _, l := range c.Layers {
		name := l.Layer
		if l.Count > 1 {
			name = fmt.Sprintf("%s (%d such)", name, l.Count)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, l.Samples,
			units.FormatSeconds(l.Forward), units.FormatSeconds(l.Backward),
			units.FormatSeconds(l.InputGradient), units.FormatSeconds(l.WeightGradient),
			giga(l.ForwardRate), giga(l.BackwardRate))
	}
	return table.Flush()
}

// giga prints a rate in billions; "-" for 0.
func giga(rate float64) string {
	if rate <= 0 {
		return "-"
	}
	return strconv.FormatFloat(rate/1e9, 'f', 1, 64)
}

// orUnlimited prints the bandwidth of memory; 0 is one that never limits.
func orUnlimited(rate float64) string {
	if rate == 0 {
		return "unlimited memory bandwidth"
	}
	return units.FormatRate(rate)
}

// WriteJSON prints everything as one object.
func (c *Calibration) WriteJSON(w io.Writer) error { return files.WriteJSON(w, c) }

// Comment returns the lines at the head of the machine file.
func (c *Calibration) Comment() []string {
	lines := []string{
		fmt.Sprintf("Layers of %s in fp32, by themselves on one core of %s.", c.Model, c.CPU),
		fmt.Sprintf("%s. Medians, by", toolchain()),
		"  " + c.Command,
		"",
		fmt.Sprintf("[machine.compute] is for layers that were not measured: fitted to those that were, "+
			"and off by %.0f %% of their time.", 100*c.FitError),
		fmt.Sprintf("Calling a program that does nothing takes %s, which the layers' times include.",
			units.FormatSeconds(c.Call)),
	}
	if c.Cores != nil {
		lines = append(lines, fmt.Sprintf("[machine.cores] is how many times as long tasks take "+
			"while all %d cores compute as they take alone.", c.Cores.Number))
	}
	for _, warning := range c.Warnings {
		lines = append(lines, "Warning: "+warning+".")
	}
	return lines
}

// toolchain names what determines the speed in addition to the processor.
func toolchain() string {
	simd := "without SIMD"
	if backend.SIMDCompiled {
		simd = "built with SIMD, " + backend.SIMD()
		if backend.SIMD() == "" {
			simd = "built with SIMD, which this processor does not have"
		}
	}
	return fmt.Sprintf("gomlx's Go backend, %s %s/%s, %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, simd)
}
