package configs

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
)

// syntaxError says in psim's words what the library found wrong in a text.
func (s *source) syntaxError(data string, e toml.ParseError) *Error {
	lines := strings.Split(data, "\n")
	n := max(1, min(e.Position.Line, len(lines)))
	if m := twicePattern.FindStringSubmatch(e.Message); m != nil {
		return s.twice(m[1], strings.Join(lines[:n-1], "\n"), strings.Join(lines[:n], "\n"), e.Position)
	}
	return s.at(e.Position, "", syntaxProblem(lines[n-1], e.Message))
}

var twicePattern = regexp.MustCompile(`^Key '(.*)' (?:has|was) already`)

// twice reports a key that a text has again, which ends where it stands.
func (s *source) twice(key, before, text string, at toml.Position) *Error {
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
		return s.at(at, "", fmt.Sprintf("%s is one section, not a list of them; write [%s] in place of [[%s]]", key, key, key))
	case strings.HasPrefix(last, "["):
		return s.at(at, "", fmt.Sprintf("[%s] is given twice%s; write its keys in one place", key, first))
	}
	return s.at(at, "", key+" is set twice"+first+"; remove one")
}

// assignment finds the key and the value of a line without its comment, bareValue a value
// that is neither quoted nor a list, and colon a line as YAML has it.
var (
	assignment = regexp.MustCompile(`^\s*([^=\s]+)\s*=\s*(.*?)\s*(?:#.*)?$`)
	colon      = regexp.MustCompile(`^\s*[\w-]+\s*:`)
	bareValue  = regexp.MustCompile("^[^\"'\\[{,=]+$")
)

// syntaxProblem words what is wrong in a line by the library's message, which it
// returns where it knows no better.
func syntaxProblem(line, message string) string {
	key, value := "name", ""
	if m := assignment.FindStringSubmatch(line); m != nil {
		key, value = m[1], m[2]
	}
	for _, c := range []struct {
		message string
		applies bool
		problem string
	}{
		{"strings cannot contain newlines", true, fmt.Sprintf(`the text has no closing quote; write %s = "…"`, key)},
		{"expected value", value == "", fmt.Sprintf("%s has no value; write it after the =, or remove the line", key)},
		{"expected value", value == "True" || value == "False", fmt.Sprintf("write %s = %s, in lower case", key, strings.ToLower(value))},
		{"expected value", bareValue.MatchString(value), fmt.Sprintf("%s needs quotes; write %s = %q", value, key, value)},
		{"item to end with a newline", bareValue.MatchString(value), fmt.Sprintf("%s needs quotes; write %s = %q", value, key, value)},
		{"item to end with a newline", true, "only a comment may follow a value; write every key on a line of its own"},
		{"array terminator", true, "a list needs commas between its values, quotes around texts and quantities, and a ] at its end"},
		{"inline table terminator", true, "a table in one line needs commas between its keys, and a } at its end"},
		{"to end table name", true, "a section's name ends with a bracket; write [schedule]"},
		{"expected '.' or '='", colon.MatchString(line), "a key is followed by =, not by a colon; write key = value, and a section as [schedule]"},
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
