// Package table lays out tables for people and for programs.
package table

import (
	"bufio"
	"fmt"
	"io"
)

// A Page is a report for people.
type Page struct{ *bufio.Writer }

// NewPage starts a page on a writer. Flush ends it.
func NewPage(w io.Writer) Page { return Page{bufio.NewWriter(w)} }

// Print writes formatted text.
func (p Page) Print(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// Section writes a title after an empty line.
func (p Page) Section(title string) { p.Print("\n%s\n", title) }

// Warn writes warnings after an empty line.
func (p Page) Warn(warnings []string) {
	for i, warning := range warnings {
		if i == 0 {
			p.Print("\n")
		}
		p.Print("warning: %s\n", warning)
	}
}
