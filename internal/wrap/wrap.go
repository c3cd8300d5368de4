// Package wrap breaks texts into lines for a terminal.
package wrap

import (
	"strings"
	"unicode/utf8"
)

// Lines breaks a text between words into lines of at most width letters. A word that
// is longer has a line to itself.
func Lines(text string, width int) []string {
	var lines []string
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last < 0 || utf8.RuneCountInString(lines[last]+" "+word) > width {
			lines = append(lines, word)
		} else {
			lines[last] += " " + word
		}
	}
	return lines
}

// Text joins these lines, with a prefix before all but the first.
func Text(text string, width int, prefix string) string {
	return strings.Join(Lines(text, width), "\n"+prefix)
}
