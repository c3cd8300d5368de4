package reports

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// page prints a report for people.
type page struct{ *bufio.Writer }

func newPage(w io.Writer) page { return page{bufio.NewWriter(w)} }

func (p page) print(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// table prints rows in columns, all but the first column flush right.
func (p page) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line += "  " + cell + pad
			} else {
				line += "  " + pad + cell
			}
		}
		p.print("%s\n", strings.TrimRight(line, " "))
	}
}

func (p page) section(title string, rows [][]string) {
	p.print("\n%s\n", title)
	p.table(rows)
}

// warn prints warnings after an empty line.
func (p page) warn(warnings []string) {
	for i, warning := range warnings {
		if i == 0 {
			p.print("\n")
		}
		p.print("warning: %s\n", warning)
	}
}

// rowsOf makes a row of each item. Of more than 16 it leaves out all but the
// first and the last four, and reports so.
func rowsOf[T any](items []T, row func(T) []string) (rows [][]string, all bool) {
	const most, ends = 16, 4
	all = len(items) <= most
	for i, item := range items {
		switch {
		case all || i < ends || i >= len(items)-ends:
			rows = append(rows, row(item))
		case i == ends:
			rows = append(rows, []string{"…"})
		}
	}
	return rows, all
}
