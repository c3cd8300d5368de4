// Package table lays out tables for people and for programs.
package table

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Page prints a report for people.
type Page struct{ *bufio.Writer }

// NewPage starts a page on a writer; Flush ends it.
func NewPage(w io.Writer) Page { return Page{bufio.NewWriter(w)} }

// Print writes formatted text.
func (p Page) Print(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// Table prints rows in columns, all but the first column flush right.
func (p Page) Table(rows [][]string) {
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
		p.Print("%s\n", strings.TrimRight(line, " "))
	}
}

// Section prints a title and a table under it, after an empty line.
func (p Page) Section(title string, rows [][]string) {
	p.Print("\n%s\n", title)
	p.Table(rows)
}

// Warn prints warnings after an empty line.
func (p Page) Warn(warnings []string) {
	for i, warning := range warnings {
		if i == 0 {
			p.Print("\n")
		}
		p.Print("warning: %s\n", warning)
	}
}

// Excerpt makes a row of each item. Of more than 16 it leaves out all but the
// first and the last four, and reports so.
func Excerpt[T any](items []T, row func(T) []string) (rows [][]string, all bool) {
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
