package published

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim/internal/units"
)

// A SourceError is the error of the training runs that one source has published, over the rows that no
// constant was fitted to.
type SourceError struct {
	Source string `json:"source"`
	Sites  int    `json:"sites"` // clusters that the rows were measured on
	Rows   int    `json:"rows"`
	Fitted int    `json:"fitted"` // rows that constants were fitted to
	// MeanError and MedianError are of absolute errors.
	MeanError   float64 `json:"mean_error"`
	MedianError float64 `json:"median_error"`
	// LeftOut is the mean error with constants of stacks that were fitted without the source, over all of
	// its rows.
	LeftOut float64 `json:"left_out_mean_error,omitempty"`
	// Apart says why the source is in no mean over sources; "" if it is.
	Apart string `json:"apart,omitempty"`
}

// A Headline is the error that a user should expect: each source has one vote, however many rows it
// has.
type Headline struct {
	Sources   int     `json:"sources"`
	MeanError float64 `json:"mean_error"` // over sources, of each source's mean error
	Rows      int     `json:"rows"`
	// RowsMean and RowsMedian are over the rows of these sources.
	RowsMean   float64 `json:"rows_mean_error"`
	RowsMedian float64 `json:"rows_median_error"`
}

// bySource groups the rows of training runs by their source, in the order of the tables, and averages
// over the sources. Rows of tables that stand apart are groups of their own, and not in the headline,
// which is nil without others.
func (r Report) bySource() (list []SourceError, h *Headline) {
	var rows [][]DataPoint
	for _, t := range r.Tables {
		for _, row := range t.Replayed {
			if row.Source == "" {
				continue
			}
			i := slices.IndexFunc(list, func(s SourceError) bool {
				return s.Source == row.Source && s.Apart == t.Apart
			})
			if i < 0 {
				i, rows = len(list), append(rows, nil)
				list = append(list, SourceError{Source: row.Source, Apart: t.Apart})
			}
			rows[i] = append(rows[i], row)
		}
	}
	var all, means []float64
	for i := range list {
		s, off := &list[i], sizes(rows[i])
		s.Sites, s.Rows, s.Fitted = sites(rows[i]), len(rows[i]), len(rows[i])-len(off)
		if len(off) == 0 {
			continue
		}
		s.MeanError, s.MedianError = units.Mean(off), units.Median(off)
		if s.Apart == "" {
			all, means = append(all, off...), append(means, s.MeanError)
		}
	}
	if means == nil {
		return list, nil
	}
	return list, &Headline{
		Sources: len(means), MeanError: units.Mean(means),
		Rows: len(all), RowsMean: units.Mean(all), RowsMedian: units.Median(all),
	}
}

// sizes lists the errors of the rows that no constant was fitted to, without their signs.
func sizes(rows []DataPoint) (off []float64) {
	for _, row := range rows {
		if !row.Used {
			off = append(off, math.Abs(row.Error()))
		}
	}
	return off
}

// sites counts the clusters that rows were measured on.
func sites(rows []DataPoint) int {
	of := map[string]bool{}
	for _, row := range rows {
		if row.Site != "" {
			of[row.Site] = true
		}
	}
	return len(of)
}

// leaveOut adds the errors with constants that have not seen a source, as make leave-out has found them,
// for the tables of the report.
func (r *Report) leaveOut() {
	var left Report
	for _, t := range r.Tables {
		left.Tables = append(left.Tables, StudyResult{Replayed: leftRows(t.Name)})
	}
	var sources []SourceError
	sources, r.LeftOut = left.bySource()
	for _, s := range sources {
		i := slices.IndexFunc(r.Sources, func(of SourceError) bool { return of.Source == s.Source && of.Apart == "" })
		if i >= 0 {
			r.Sources[i].LeftOut = s.MeanError
		}
	}
}

// headlines returns the means over sources as sentences: first the one that a user should expect.
func (r Report) headlines() (lines []string) {
	if r.LeftOut != nil {
		lines = append(lines, "Constants fitted again without each source in turn: "+r.LeftOut.text())
	}
	return append(lines, "Constants as they are, over rows that none was fitted to: "+r.Headline.text())
}

// text returns the headline as a sentence.
func (h *Headline) text() string {
	return fmt.Sprintf("mean over %s of each one's mean error %s; over their %s, mean %s and median %s.",
		units.Plural(h.Sources, "source"), percent(h.MeanError), units.Plural(h.Rows, "row"),
		percent(h.RowsMean), percent(h.RowsMedian))
}

// notInMeans says which published training runs are in no mean over sources: those of tables that stand
// apart, and those that psim cannot say yet.
func (r Report) notInMeans() (lines []string) {
	counts, names := map[string]int{}, map[string][]string{}
	var reasons []string
	for _, s := range r.Sources {
		if s.Apart == "" {
			continue
		}
		if counts[s.Apart] == 0 {
			reasons = append(reasons, s.Apart)
		}
		counts[s.Apart] += s.Rows
		names[s.Apart] = append(names[s.Apart], s.Source)
	}
	for _, reason := range reasons {
		lines = append(lines, fmt.Sprintf("Apart, %s: %s (%s).", reason, units.Plural(counts[reason], "row"),
			strings.Join(names[reason], ", ")))
	}
	return append(lines, unsaid())
}

// unsaid counts the published runs that are in no table, by what is lacking.
func unsaid() string {
	counts, list := map[string]int{}, records("runs_unsaid.csv")
	var lacks []string
	for _, r := range list {
		if counts[r.text("lacks")]++; counts[r.text("lacks")] == 1 {
			lacks = append(lacks, r.text("lacks"))
		}
	}
	slices.SortStableFunc(lacks, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	for i, l := range lacks {
		lacks[i] = fmt.Sprintf("%s (%d)", l, counts[l])
	}
	return fmt.Sprintf("In no table, for the reasons named, %s: %s.",
		units.Plural(len(list), "row"), strings.Join(lacks, ", "))
}

// writeSources writes the headline and a line for each source in Markdown, if there are any.
func (r Report) writeSources(b *strings.Builder) {
	if r.Headline == nil {
		return
	}
	lines := r.headlines()
	lines[0] = "**" + lines[0] + "**"
	b.WriteString(strings.Join(lines, "\n\n") + "\n\n" +
		"The first is what a user should expect of a training that psim has not seen. A source is what one\n" +
		"document, program or release has published, and has one vote; a site is a cluster. Left out: with\n" +
		"constants of stacks that have seen no row of the source, over all of its rows (`make leave-out`).\n" +
		"Inside: of its rows, those in the intervals that other sources give them.\n\n" +
		"| source | sites | rows | fitted | held out | mean | median | left out | inside |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range r.Sources {
		if s.Apart == "" {
			fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %s | %s | %s | %s |\n", s.Source, s.Sites, s.Rows, s.Fitted,
				s.Rows-s.Fitted, percent(s.MeanError), percent(s.MedianError), percent(s.LeftOut), r.insideOf(s.Source))
		}
	}
	for _, line := range slices.Concat(r.coverageLines(), r.notInMeans()) {
		b.WriteString("\n" + line + "\n")
	}
	b.WriteString("\n")
}
