package configs

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deeply a text nests brackets, braces and dotted keys. What
// the decoder takes grows with the square of it: a megabyte of brackets would
// take gigabytes.
const maxDepth = 100

// unnested matches a comment or a string, in one quote or three, with escapes if they
// are double. A string in one quote that is not closed ends with its line, where the
// decoder will complain.
var unnested = regexp.MustCompile(`^(?s:#[^\n]*|"""(?:\\.|[^\\])*?(?:"{3,}|\\?\z)|'''.*?(?:'{3,}|\z)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?)`)

// checkDepth refuses a text that nests too deeply, wherever its lines end. Strings
// and comments do not nest.
func checkDepth(label, text string) *Error {
	depth, dots := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '#', '"', '\'':
			i += len(unnested.FindString(text[i:])) - 1
		case '[', '{':
			depth, dots = depth+1, 0
		case ']', '}':
			depth, dots = max(0, depth-1), 0
		case ',', '=', '\n':
			dots = 0
		case '.':
			dots++
		}
		if depth+dots > maxDepth {
			before := text[:i]
			line := before[strings.LastIndex(before, "\n")+1:]
			return &Error{Label: label, Line: 1 + strings.Count(before, "\n"), Col: 1 + utf8.RuneCountInString(line),
				Problem: fmt.Sprintf("brackets, braces or dotted keys nest more than %d levels deep; no setting nests so deeply", maxDepth)}
		}
	}
	return nil
}
