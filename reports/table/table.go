package table

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"psim/internal/csvfile"
)

// A Table is a list of rows in columns. It can be printed as text, as CSV and as Markdown.
type Table[T any] struct {
	Columns []Column[T]
	Rows    []T
	// Excerpt lets Text print only the first and last rows of many, and below them Summary.
	Excerpt bool
	Summary []T
}

// A Column is a column of a table with rows of type T.
type Column[T any] struct {
	Head string      // the heading; in CSV the name of the column
	Over string      // a heading above Head, for this column and those after it
	Cell func(T) any // the value in a row, which is printed as fmt.Print prints it
	Left bool        // flush left in Text and Markdown; the default is flush right
	Hide bool        // leaves the column out
}

// Of more rows than mostRows an excerpt has the first and last endRows.
const (
	mostRows = 16
	endRows  = 4
)

// gap separates the columns of a text.
const gap = "  "

// Text prints the table on a page, indented by two spaces.
func (t Table[T]) Text(p Page) {
	columns := t.columns()
	lines := t.heads(columns)
	if !t.Excerpt || len(t.Rows) <= mostRows {
		lines = append(lines, cells(columns, t.Rows)...)
	} else {
		lines = append(lines, cells(columns, t.Rows[:endRows])...)
		lines = append(lines, []string{"…"})
		lines = append(lines, cells(columns, t.Rows[len(t.Rows)-endRows:])...)
		if t.Summary != nil {
			lines = append(append(lines, nil), cells(columns, t.Summary)...)
		}
	}
	widths := widthsOf(lines)
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			text.WriteString(gap)
			text.WriteString(pad(cell, widths[i], columns[i].Left))
		}
		p.Print("%s\n", strings.TrimRight(text.String(), " "))
	}
}

// List prints the table as a list of words: all columns flush left, and nothing before the
// first.
func (t Table[T]) List(w io.Writer) {
	columns := t.columns()
	lines := append(t.heads(columns), cells(columns, t.Rows)...)
	widths := widthsOf(lines)
	for _, line := range lines {
		last := len(line) - 1
		for i, cell := range line[:last] {
			line[i] = pad(cell, widths[i], true)
		}
		fmt.Fprintln(w, strings.Join(line, gap))
	}
}

// Markdown prints the table in GitHub's Markdown.
func (t Table[T]) Markdown(w io.Writer) {
	columns := t.columns()
	rule := "|"
	for _, c := range columns {
		rule += map[bool]string{true: "---|", false: "--:|"}[c.Left]
	}
	for i, line := range append(t.heads(columns), cells(columns, t.Rows)...) {
		fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			fmt.Fprintln(w, rule)
		}
	}
}

// CSV writes the table as comma-separated values, with a header.
func (t Table[T]) CSV(w io.Writer) error {
	columns := t.columns()
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Head
	}
	out := csvfile.NewWriter(w, strings.Join(names, ","))
	row := make([]any, len(columns))
	for _, x := range t.Rows {
		for i, c := range columns {
			row[i] = c.Cell(x)
		}
		out.Row(row...)
	}
	return out.End()
}

// columns returns the columns that are not hidden.
func (t Table[T]) columns() []Column[T] {
	return slices.DeleteFunc(slices.Clone(t.Columns), func(c Column[T]) bool { return c.Hide })
}

// heads returns the lines of headings.
func (t Table[T]) heads(columns []Column[T]) [][]string {
	over, heads, any := []string{}, []string{}, false
	for _, c := range columns {
		over, heads = append(over, c.Over), append(heads, c.Head)
		any = any || c.Over != ""
	}
	if any {
		return [][]string{over, heads}
	}
	return [][]string{heads}
}

// cells returns a line of cells for every row.
func cells[T any](columns []Column[T], rows []T) [][]string {
	lines := make([][]string, len(rows))
	for i, row := range rows {
		for _, c := range columns {
			lines[i] = append(lines[i], fmt.Sprint(c.Cell(row)))
		}
	}
	return lines
}

// widthsOf returns the width of every column, in characters.
func widthsOf(lines [][]string) []int {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// pad fills a cell with spaces.
func pad(cell string, width int, left bool) string {
	spaces := strings.Repeat(" ", width-utf8.RuneCountInString(cell))
	if left {
		return cell + spaces
	}
	return spaces + cell
}
