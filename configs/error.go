package configs

import (
	"fmt"
	"strings"
)

// An Error is a problem with one key of a configuration.
type Error struct {
	Label     string // the file or flag
	Line, Col int    // 0 where there is no position
	Key       string // dotted; empty where the whole file is meant
	Problem   string
}

// Error prints "file:line:column: key: problem", as far as it is known.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Label)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	b.WriteString(": ")
	if e.Key != "" && !strings.HasPrefix(e.Problem, e.Key) {
		b.WriteString(e.Key + ": ")
	}
	b.WriteString(e.Problem)
	return shorten(b.String())
}

// shorten cuts the middle out of a message that quotes an enormous value.
func shorten(text string) string {
	const longest = 2000
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest/2], "") + " […] " + strings.ToValidUTF8(text[len(text)-longest/4:], "")
}
