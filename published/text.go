package published

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"psim/internal/wrap"
	"psim/results"
)

const textWidth = 100

// WriteText writes every table's rows, and a line for each table at the end.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, t := range r.Tables {
		t.writeText(&b)
	}
	r.writeSummary(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteSummary writes a line for each table, and how to see its rows.
func (r Report) WriteSummary(w io.Writer) error {
	var b strings.Builder
	r.writeSummary(&b)
	b.WriteString("\nErrors are of rows that no constant was fitted to. For the rows of a table, what was fitted\n" +
		"and what is known of the errors, name it: psim validate --published NAME\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) writeSummary(b *strings.Builder) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "table\trows\tsites\tfitted\theld out\tmean\tmedian\tworst\tcoverage")
	for _, t := range r.Tables {
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", t.Name, t.Rows, t.sites(), t.Rows-t.Compared,
			t.Compared, percent(t.MeanError), percent(t.MedianError), percent(t.WorstError), t.inside())
	}
	table.Flush() // into memory
	if r.Headline != nil && len(r.Tables) == len(tables()) {
		for _, line := range slices.Concat(r.headlines(), r.coverageLines(), r.notInMeans()) {
			fmt.Fprintf(b, "\n%s\n", wrap.Text(line, textWidth, ""))
		}
	}
	r.writeVerdicts(b, "\n", verdictText)
}

func (t StudyResult) writeText(b *strings.Builder) {
	fmt.Fprintf(b, "%s: %s\n%s; %s\n", t.Name, t.Title, t.Paper, t.Place)
	if t.Fitted {
		fmt.Fprintln(b, wrap.Text("fitted: "+t.FittedFrom, textWidth, "  "))
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  row\tpredicted\tpublished\terror")
	for _, row := range t.Replayed {
		predicted, published := amount(row.Predicted, row.Unit), amount(row.Published, row.Unit)
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s%s\n", row.Label, predicted, published, signed(row.Error()), row.remark())
	}
	for _, row := range t.Failed {
		right := "right"
		if row.Verdict != results.DoesNotFit {
			right = "an error of the model"
		}
		fmt.Fprintf(table, "  %s\t%s\tout of memory\t%s\n", row.Label, row.Verdict, right)
	}
	table.Flush() // into memory
	if t.Fitted {
		fmt.Fprintf(b, "%s\n", t.allRows())
	}
	if t.Splits != nil {
		for line := range strings.SplitSeq(t.splitsText(), "\n") {
			fmt.Fprintln(b, wrap.Text(line, textWidth, "  "))
		}
	}
	for _, o := range t.Orders {
		fmt.Fprintln(b, wrap.Text(o.text(), textWidth, ""))
	}
	if t.Note != "" {
		for paragraph := range strings.SplitSeq(t.Note, "\n\n") {
			fmt.Fprintln(b, wrap.Text(paragraph, textWidth, ""))
		}
	}
	fmt.Fprintln(b)
}

func (t StudyResult) allRows() string {
	return fmt.Sprintf("Over all %d rows, those used included: mean %s, worst %s.",
		t.Rows, percent(t.AllMean), percent(t.AllWorst))
}

// remark returns the text after a row: whether it was used, the parts of its error, and the errors of
// its alternatives.
func (r DataPoint) remark() string {
	var parts []string
	if r.Used {
		parts = append(parts, "used for the fit")
	}
	if r.Verdict == results.DoesNotFit {
		parts = append(parts, "it ran, so that the verdict \"does not fit\" is an error of the model")
	}
	for _, p := range r.Parts {
		parts = append(parts, p.Name+" "+signed(p.Error))
	}
	for i, a := range r.Alternatives {
		text := a.Name + " " + signed(a.Predicted/r.Published-1)
		if i == 0 {
			text = "otherwise explained: " + text
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	return "  " + strings.Join(parts, ", ")
}

// sites returns the number of clusters of a table's training runs.
func (t StudyResult) sites() string {
	return cmp.Or(strings.TrimPrefix(strconv.Itoa(t.Sites), "0"), "–")
}

// counted returns the number of rows, and of the rows that count in the errors.
func (t StudyResult) counted() string {
	if t.Compared < t.Rows {
		return fmt.Sprintf("%d of %d", t.Compared, t.Rows)
	}
	return strconv.Itoa(t.Rows)
}

// amount prints a number with four digits, without an exponent, and its unit.
func amount(x float64, unit string) string {
	const digits = 4
	decimals := digits
	if x != 0 {
		decimals = max(0, digits-1-int(math.Floor(math.Log10(math.Abs(x)))))
	}
	return strings.TrimSpace(strconv.FormatFloat(x, 'f', decimals, 64) + " " + unit)
}

func percent(x float64) string { return fmt.Sprintf("%.2f %%", 100*x) }

func signed(x float64) string {
	if math.Abs(x) < 0.5e-4 {
		return "0.00 %"
	}
	return strings.Replace(fmt.Sprintf("%+.2f %%", 100*x), "-", "−", 1)
}

func (t StudyResult) constantsFrom() string {
	switch {
	case t.Fitted:
		return t.FittedFrom
	case t.DeviceFrom != "":
		return "none from this table; the device's are from " + t.DeviceFrom
	}
	return "nothing fitted"
}

// upper makes the first letter of a sentence upper case, unless the sentence begins with the name of a
// repository.
func upper(text string) string {
	if first, _, _ := strings.Cut(text, " "); strings.Contains(first, "/") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
