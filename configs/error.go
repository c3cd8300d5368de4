package configs

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
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

var incompatible = regexp.MustCompile(`incompatible types: TOML value has type (\S+?); destination has type (\S+)`)

// typeNames says in words what the library calls the types of values and of
// what they are to be.
var typeNames = map[string]string{
	"bool": "true or false", "int64": "an integer", "float64": "a number with a fraction", "string": "a string",
	"time.Time": "a date", "[]any": "a list", "[]map[string]any": "a list of tables", "map[string]any": "a table",
	"boolean": "true or false", "integer": "an integer", "float": "a number", "primitive": "a string", "slice": "a list",
}

// valueProblem rewords the library's message for a value of the wrong type.
func valueProblem(err error) string {
	var parse toml.ParseError
	if errors.As(err, &parse) {
		return parse.Message
	}
	if m := incompatible.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Sprintf("the value is %s; %s is wanted", typeName(m[1]), typeName(m[2]))
	}
	return strings.TrimPrefix(err.Error(), "toml: ")
}

func typeName(library string) string {
	if name, ok := typeNames[library]; ok {
		return name
	}
	return library
}
