package published

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"psim/results"
)

// WriteMarkdown writes docs/accuracy.md: the means over sources, coverage and verdicts, with links to the pages of
// tables in a folder next to the file. Without a folder the pages follow.
func (r Report) WriteMarkdown(w io.Writer, folder string) error {
	var b strings.Builder
	b.WriteString("# Accuracy\n\n")
	r.writeSources(&b)
	b.WriteString(`Errors are absolute, in percent of the published number, over the rows that no constant was fitted
to. A test holds every mean, median and worst error below a ceiling (published/testdata/ceilings.csv).
` + "`make accuracy`" + ` makes this page and its folder; one table with its rows is
` + "`psim validate --published NAME`" + `.
`)
	r.writeMisfits(&b)
	pages := r.Pages("")
	if folder != "" {
		fmt.Fprintf(&b, "\nThe pages: [all tables, by stack and device](%s/tables.md), with a page for each.\n", folder)
		pages = nil
	}
	for _, p := range pages {
		b.WriteString("\n" + p.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A TablePage is a file of the folder next to docs/accuracy.md.
type TablePage struct{ Name, Text string }

// PageNames returns the file names of the pages of tables.
func PageNames(tables []Study) []string {
	names := []string{"tables.md"}
	for _, t := range tables {
		names = append(names, t.Name+".md")
	}
	return names
}

// Pages returns a page with a line for each stack and table, and one for every table. pictures is the folder of
// the pictures as pages see it, such as ".", or "" for none.
func (r Report) Pages(pictures string) []TablePage {
	var b strings.Builder
	b.WriteString("# Published tables\n\n")
	r.writeStacks(&b)
	b.WriteString(`| table | what | rows | mean | median | worst | constants | best claim of another tool |
|---|---|--:|--:|--:|--:|---|---|
`)
	for _, t := range r.Tables {
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s | %s | %s | %s | %s | %s |\n", t.Name, t.Name, t.Title, t.counted(),
			percent(t.MeanError), percent(t.MedianError), percent(t.WorstError),
			t.constantsFrom(), cmp.Or(t.Claim, "–"))
	}
	r.writeVerdicts(&b, verdictHead, verdictMarkdown)
	list := []TablePage{{"tables.md", b.String()}}
	for _, t := range r.Tables {
		b.Reset()
		t.writeMarkdown(&b)
		if pictures != "" {
			fmt.Fprintf(&b, "\n![predicted against published](%s.png)\n", t.Figure)
		}
		list = append(list, TablePage{t.Name + ".md", b.String()})
	}
	return list
}

// writeMarkdown writes the page of a table.
func (t StudyResult) writeMarkdown(b *strings.Builder) {
	fmt.Fprintf(b, "# %s\n\n%s.\n%s. Worst row: %s.\n", t.Name,
		upper(strings.TrimSuffix(t.Paper, ".")), upper(t.Place), t.WorstRow)
	if t.Fitted {
		fmt.Fprintf(b, "%s\n", t.allRows())
	}
	for i, o := range t.Orders {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "%s\n", o.text())
	}
	if t.Note != "" {
		fmt.Fprintf(b, "\n%s\n", t.Note)
	}
	t.writeSplits(b)
}

// writeMisfits counts the training runs that ran although their memory is predicted not to suffice.
func (r Report) writeMisfits(b *strings.Builder) {
	not, all := 0, 0
	for _, t := range r.Tables {
		counts, n := t.verdicts()
		not, all = not+counts[results.DoesNotFit], all+n
	}
	if all > 0 {
		fmt.Fprintf(b, "\nOf %d training runs, all of which ran, %d are predicted not to fit: errors of the model.\n",
			all, not)
	}
}
