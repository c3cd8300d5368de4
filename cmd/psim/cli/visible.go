package cli

import (
	"fmt"
	"strings"
	"unicode"
)

// visible writes control characters, which could command a terminal, as JSON does;
// names in files and of files may hold any. Lines and tabs stay.
func visible(text string) string {
	hidden := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
