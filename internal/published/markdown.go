package published

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes docs/accuracy.md: one table, and a section with what is
// fitted for every one of its rows. Pictures are in a folder beside it; "" is without.
func (r Report) WriteMarkdown(w io.Writer, pictures string) error {
	var b strings.Builder
	b.WriteString(`# Accuracy

Published tables, and how far off psim's predictions are. Errors are absolute, in
percent of the published number, over the rows that no constant was fitted to.
Everything here is made by ` + "`make accuracy`" + `; one table with its rows is
` + "`psim validate --published NAME`" + `.

| table | what | rows | mean | median | worst | constants | best claim of another tool |
|---|---|--:|--:|--:|--:|---|---|
`)
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s | %s | %s | %s |\n", t.Name, t.Name, t.Title, t.counted(),
			percent(t.MeanError), percent(t.MedianError), percent(t.WorstError), t.constantsFrom(), cmp.Or(t.Claim, "–"))
	}
	for i, t := range r.Tables {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n%s. Worst row: %s.\n", t.Name, strings.TrimSuffix(t.Paper, "."), upper(t.Place), t.WorstRow)
		if t.Fitted {
			fmt.Fprintf(&b, "%s\n", t.allRows())
		}
		if t.Note != "" {
			fmt.Fprintf(&b, "\n%s\n", t.Note)
		}
		if pictures == "" {
			continue
		}
		if last := i+1 == len(r.Tables) || r.Tables[i+1].Figure != t.Figure; last {
			fmt.Fprintf(&b, "\n![predicted against published](%s/%s.png)\n", pictures, t.Figure)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// constantsFrom returns the cell of constants.
func (t Result) constantsFrom() string {
	switch {
	case t.Fitted:
		return t.FittedFrom
	case t.DeviceFrom != "":
		return "none from this table; the device's are from " + t.DeviceFrom
	}
	return "nothing fitted"
}

// upper begins a sentence.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
