package site

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"psim/internal/files"
	"psim/internal/units"
)

// farOff is the mean error of fitted runs from which on their constants explain little of them.
const farOff = 0.2

// mark begins the file of a site.
const mark = "# A site, written by psim calibrate --runs: machine.site of a configuration names it.\n"

// WriteTOML writes the site as a file for machine.site. spread is the catalog's machine.spread. Comments say what it
// was fitted to.
func (f *SiteFit) WriteTOML(w io.Writer, spread float64, from string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s# %s.\n\n[machine]\n", mark, strings.ToValidUTF8(f.sentence(from), ""))
	for _, c := range f.Constants {
		value := c.Factor
		if c.Key == "machine.spread" {
			value *= spread
		}
		fmt.Fprintf(&b, "%s = %.4g\n", strings.TrimPrefix(c.Key, "machine."), value)
	}
	fmt.Fprintf(&b, "\n[site]\ndevice = %q\nstack = %q\n", f.Device, f.Stack)
	if f.LeftOut != nil {
		b.WriteString("\n# Logarithms of measured over predicted steps, each predicted without the run.\n")
		for _, r := range f.Runs {
			fmt.Fprintf(&b, "[[site.run]]\nerror = %.5f\n", math.Log(r.Step/r.LeftOut))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sentence says what the site was fitted to and how far off it is.
func (f *SiteFit) sentence(from string) string {
	left := "not known: that takes three runs"
	if f.LeftOut != nil {
		left = fmt.Sprintf("%.1f %%", 100**f.LeftOut)
	}
	return fmt.Sprintf("%s of %s: %.1f %% off with the catalog's constants, %.1f %% with the site's; the error of a "+
		"further run, left out by run, is %s",
		units.Plural(len(f.Runs), "run"), printable(from), 100*f.Before, 100*f.After, left)
}

// printable removes what a comment may not have.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
}

// WriteText prints the runs, the constants, and the command to use next.
func (f *SiteFit) WriteText(w io.Writer, from, next string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "line\tmeasured\tcatalog's\toff\tsite's\toff\tleft out\toff\t")
	for _, r := range f.Runs {
		fmt.Fprintf(table, "%d\t%s", r.Line, units.FormatSeconds(r.Step))
		for _, predicted := range []float64{r.Before, r.After, r.LeftOut} {
			if predicted == 0 {
				fmt.Fprint(table, "\t-\t-")
				continue
			}
			fmt.Fprintf(table, "\t%s\t%+.1f %%", units.FormatSeconds(predicted), 100*(predicted/r.Step-1))
		}
		fmt.Fprintln(table, "\t")
	}
	table.Flush() // a failure shows below
	fmt.Fprintln(w)
	for _, c := range f.Constants {
		fmt.Fprintf(w, "%s: %.4g times the catalog's\n", c.Key, c.Factor)
	}
	fmt.Fprintf(w, "%s\n", f.sentence(from))
	if f.After > farOff {
		fmt.Fprintln(w, "warning: the site's constants do not explain these runs; see which are off, and whether "+
			"their settings are what ran")
	}
	if next == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nuse it with\n  %s\n", next)
	return err
}

// WriteJSON writes the fit as an indented JSON object.
func (f *SiteFit) WriteJSON(w io.Writer) error { return files.WriteJSON(w, f) }
