package configs

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"psim/configs/foreign"
)

// syntaxError words a syntax error of the library for users.
func (s *source) syntaxError(data string, e toml.ParseError) *Error {
	if kind := foreign.Likely(s.label, data); s.lines && kind != "" {
		return &Error{Label: s.label, Problem: kind}
	}
	lines := strings.Split(data, "\n")
	n := max(1, min(e.Position.Line, len(lines)))
	if m := duplicatePattern.FindStringSubmatch(e.Message); m != nil {
		return s.duplicate(m[1], strings.Join(lines[:n-1], "\n"), strings.Join(lines[:n], "\n"), e.Position)
	}
	return s.at(e.Position, "", syntaxProblem(lines[n-1], e.Message))
}

var duplicatePattern = regexp.MustCompile(`^Key '(.*)' (?:has|was) already`)

// duplicate reports a key that was set before. text ends with the line of the second one.
func (s *source) duplicate(key, before, text string, at toml.Position) *Error {
	if here, ok := places(text)[key]; ok {
		at = here.key
	}
	first := ""
	if p, ok := places(before)[key]; ok {
		first = fmt.Sprintf(", first in line %d", p.key.Line)
	}
	last := strings.TrimSpace(text[strings.LastIndex(text, "\n")+1:])
	switch {
	case strings.HasPrefix(last, "[["):
		return s.at(at, "", fmt.Sprintf("%s is one section, not a list; write [%s] instead of [[%s]]", key, key, key))
	case strings.HasPrefix(last, "["):
		return s.at(at, "", fmt.Sprintf("[%s] is given twice%s; write its keys in one place", key, first))
	}
	return s.at(at, "", key+" is set twice"+first+"; remove one")
}

// assignment matches a line with a key and a value, without its comment; bareValue matches a
// value that is neither quoted nor a list, and colon the beginning of a line of YAML.
var (
	assignment = regexp.MustCompile(`^\s*([^=\s]+)\s*=\s*(.*?)\s*(?:#.*)?$`)
	colon      = regexp.MustCompile(`^\s*[\w-]+\s*:`)
	bareValue  = regexp.MustCompile("^[^\"'\\[{,=]+$")
)

// syntaxProblem words the problem of a line, given the library's message, which it returns if it
// has no better words.
func syntaxProblem(line, message string) string {
	key, value := "name", ""
	if m := assignment.FindStringSubmatch(line); m != nil {
		key, value = m[1], m[2]
	}
	quotes := fmt.Sprintf("%s needs quotes; write %s = %q", value, key, value)
	lower := fmt.Sprintf("write %s = %s, in lower case", key, strings.ToLower(value))
	for _, c := range []struct {
		message string
		applies bool
		problem string
	}{
		{"strings cannot contain newlines", true, fmt.Sprintf(`the text has no closing quote; write %s = "…"`, key)},
		{"expected value", value == "", fmt.Sprintf("%s has no value; write it after the =, or remove the line", key)},
		{"expected value", value == "True" || value == "False", lower},
		{"expected value", bareValue.MatchString(value), quotes},
		{"item to end with a newline", bareValue.MatchString(value), quotes},
		{"item to end with a newline", true, "only a comment may follow a value; write every key on a line of its own"},
		{"array terminator", true, "a list needs commas between its values, quotes around texts and quantities, " +
			"and a ] at its end"},
		{"inline table terminator", true, "a table in one line needs commas between its keys, and a } at its end"},
		{"to end table name", true, "a section's name ends with a bracket; write [schedule]"},
		{"expected '.' or '='", colon.MatchString(line), "a key is followed by =, not by a colon; write key = value, " +
			"and a section as [schedule]"},
		{"expected '.' or '='", true, "a key, without spaces, is followed by =; write key = value"},
		{"key name appears blank", true, "there is no key before the ="},
		{"invalid escape", true, `a \ in double quotes begins an escape; write a path with /, or in single quotes`},
		{"floats must start with a digit", true, "a number needs a digit before its point; write 0.5"},
		{"leading zeroes", true, value + " begins with 0; write the number without"},
	} {
		if c.applies && strings.Contains(message, c.message) {
			return c.problem
		}
	}
	return message
}

// maxDepth bounds how deeply a text nests brackets, braces and dotted keys. The memory that the
// decoder needs grows with its square: a megabyte of brackets would need gigabytes.
const maxDepth = 100

// unnested matches a comment or a string. Strings have one quote or three, and escapes if the
// quotes are double. A string with one quote that is not closed ends with its line, where the
// decoder reports it.
var unnested = regexp.MustCompile(`^(?s:#[^\n]*|"""(?:\\.|[^\\])*?(?:"{3,}|\\?\z)|` +
	`'''.*?(?:'{3,}|\z)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?)`)

// checkDepth refuses a text that nests too deeply. Strings and comments do not nest.
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
				Problem: fmt.Sprintf("brackets, braces or dotted keys nest more than %d levels deep; "+
					"no setting nests so deeply", maxDepth)}
		}
	}
	return nil
}
