package published

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim/internal/units"
)

// A Facet is the class of a row in one respect, such as how long its sequences are.
type Facet struct {
	By    string `json:"by"`
	Class string `json:"class"`
	order int
	few   bool // classes of few rows are shown as well
}

// A ClassError is the error of the rows of one class, without those that constants were fitted to.
type ClassError struct {
	Facet
	Rows      int     `json:"rows"`
	MeanError float64 `json:"mean_error"`
	Sign      float64 `json:"mean_signed_error"` // too slow is positive
}

// fewestRows is the smallest number of rows of a class that is shown, unless the table has too few rows
// for two such classes.
const fewestRows = 3

// splits divides the errors of rows by their classes, in every respect with at least two classes of
// enough rows.
func splits(rows []DataPoint) (list []ClassError) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row DataPoint) bool { return row.Used })
	few := len(rows) < 2*fewestRows
	for _, row := range rows {
		for _, f := range row.Facets {
			i := slices.IndexFunc(list, func(s ClassError) bool { return s.Facet == f })
			if i < 0 {
				i, list = len(list), append(list, ClassError{Facet: f})
			}
			list[i].Rows++
			list[i].MeanError += math.Abs(row.Error())
			list[i].Sign += row.Error()
		}
	}
	for i := range list {
		list[i].MeanError /= float64(list[i].Rows)
		list[i].Sign /= float64(list[i].Rows)
	}
	list = slices.DeleteFunc(list, func(s ClassError) bool { return s.Rows < fewestRows && !s.few && !few })
	classes, first := map[string]int{}, map[string]int{}
	for i, s := range list {
		if classes[s.By]++; classes[s.By] == 1 {
			first[s.By] = i
		}
	}
	list = slices.DeleteFunc(list, func(s ClassError) bool { return classes[s.By] < 2 })
	slices.SortStableFunc(list, func(a, b ClassError) int {
		shorter := cmp.Compare(len(a.Class), len(b.Class))
		return cmp.Or(first[a.By]-first[b.By], a.order-b.order, shorter, strings.Compare(a.Class, b.Class))
	})
	return list
}

// writeSplits writes the splits as a table of Markdown, if there are any.
func (t StudyResult) writeSplits(b *strings.Builder) {
	for i, s := range t.Splits {
		if i == 0 {
			b.WriteString("\n| by | | rows | mean | sign |\n|---|---|--:|--:|--:|\n")
		}
		by := s.By
		if i > 0 && t.Splits[i-1].By == by {
			by = ""
		}
		fmt.Fprintf(b, "| %s | %s | %d | %s | %s |\n", by, s.Class, s.Rows, percent(s.MeanError), signed(s.Sign))
	}
}

// splitsText writes a line for each respect.
func (t StudyResult) splitsText() string {
	var b strings.Builder
	for i, s := range t.Splits {
		switch {
		case i == 0 || t.Splits[i-1].By != s.By:
			fmt.Fprintf(&b, "\nby %s: ", s.By)
		default:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s (%s)", s.Class, signed(s.Sign), units.Plural(s.Rows, "row"))
	}
	return strings.TrimPrefix(b.String(), "\n")
}
