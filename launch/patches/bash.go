package patches

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A Flag is an option of a command line.
type Flag struct {
	Names []string // with their dashes; - and _ are the same
	List  bool     // several words may follow it
	Bare  bool     // no word follows it
}

// What may follow a flag in a line of a script: a word, quoted or not, or for a list several.
const (
	oneWord   = `("[^"\n]*"|'[^'\n]*'|\$\{[^}\n]*\}|\$\(\([^\n]*?\)\)|[^\s"'()\\]+)`
	someWords = `([^-\s"'()\\][^\s"'()\\]*(?:[ \t]+[^-\s"'()\\][^\s"'()\\]*)*)`
)

// Quoted returns a word as bash reads it back.
func Quoted(word string) string {
	text, err := syntax.Quote(word, syntax.LangBash)
	if err != nil { // of bytes that no script can hold, which no argument has
		return "''"
	}
	return text
}

// pattern matches a flag, after what parts words.
func (f Flag) pattern(more string) *regexp.Regexp {
	var names []string
	for _, name := range f.Names {
		name = strings.ReplaceAll(strings.TrimPrefix(name, "--"), "_", "-")
		names = append(names, "--"+strings.ReplaceAll(regexp.QuoteMeta(name), "-", "[-_]"))
	}
	slices.Sort(names)
	return regexp.MustCompile(`(^|[\s"'(=])(` + strings.Join(names, "|") + `)` + more)
}

// comment reports whether a line of a script is one.
func comment(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "#") }

// replaced returns the files with another line.
func (e *Editor) replaced(file, line int, text string) []Edited {
	files := slices.Clone(e.Files)
	files[file].lines = slices.Clone(files[file].lines)
	files[file].lines[line] = text
	return files
}

// found calls a function for every match of a pattern in a line, comments aside.
func (e *Editor) found(pattern *regexp.Regexp, call func(file, line int, at []int)) {
	calls := 0
	for i, f := range e.Files {
		for j, line := range f.lines {
			if comment(line) {
				continue
			}
			for _, at := range pattern.FindAllStringSubmatchIndex(line, -1) {
				if calls++; calls > mostPlaces {
					return
				}
				call(i, j, at)
			}
		}
	}
}

// variable is a word that is one variable, maybe with a default.
var variable = regexp.MustCompile(`^"?\$\{?([A-Za-z_]\w*)(?::?-([^}]*))?\}?"?$`)

// Revalued lists files in which the value of a flag is another one: first where it comes from a variable, and then at
// the flag itself.
func (e *Editor) Revalued(f Flag, value string) (list [][]Edited) {
	word := oneWord
	if f.List {
		word = someWords
	}
	var direct [][]Edited
	e.found(f.pattern(`(=|[ \t]+)`+word), func(file, line int, at []int) {
		text := e.Files[file].lines[line]
		word := Quoted(value)
		if q := text[at[8] : at[8]+1]; q == `"` || q == "'" { // as it was
			word = q + value + q
		}
		for _, w := range slices.Compact([]string{value, word}) { // within a string it needs no quotes
			direct = append(direct, e.replaced(file, line, text[:at[8]]+w+text[at[9]:]))
		}
		if name := variable.FindStringSubmatch(text[at[8]:at[9]]); name != nil {
			list = append(list, e.assigned(name[1], value)...)
		}
	})
	return append(list, direct...)
}

// assigned lists files in which a variable gets another value, or another default.
func (e *Editor) assigned(name, value string) (list [][]Edited) {
	is := `^(\s*(?:export|local|readonly|declare)?\s*` + name + `="?`
	literal := regexp.MustCompile(is + `)([\w.,-]+)("?\s*(?:[;#].*)?)$`)
	byDefault := regexp.MustCompile(is + `\$\{\w+:?-)([^}$]*)(\}.*)$`)
	for i, f := range e.Files {
		for j, line := range f.lines {
			body := strings.TrimSuffix(line, "\n")
			for _, pattern := range []*regexp.Regexp{byDefault, literal} {
				if m := pattern.FindStringSubmatch(body); m != nil && len(list) < mostPlaces {
					list = append(list, e.replaced(i, j, m[1]+value+m[3]+line[len(body):]))
				}
			}
		}
	}
	return list
}

// Without lists files in which a flag is left out, and its value.
func (e *Editor) Without(f Flag) (list [][]Edited) {
	more := `($|[\s"')])`
	switch {
	case f.Bare:
	case f.List:
		more = `(?:=|[ \t]+)` + someWords
	default:
		more = `(?:=|[ \t]+)` + oneWord
	}
	e.found(f.pattern(more), func(file, line int, at []int) {
		text := e.Files[file].lines[line]
		end := at[1]
		if f.Bare {
			end = at[5] // what follows a switch stays
		}
		rest := strings.TrimRight(text[:at[4]], " \t") + text[end:]
		if at[4] > 0 && strings.TrimSpace(text[:at[4]]) == "" {
			rest = text[:at[4]] + strings.TrimLeft(text[end:], " \t")
		}
		if bare := strings.TrimSpace(rest); bare == "" || bare == `\` {
			list = append(list, e.replaced(file, line, ""))
		}
		list = append(list, e.replaced(file, line, rest))
	})
	return list
}

// Inserted lists files in which words stand before one of some flags.
func (e *Editor) Inserted(words string, anchors ...Flag) (list [][]Edited) {
	for _, anchor := range anchors {
		e.found(anchor.pattern(`[\s=]`), func(file, line int, at []int) {
			text := e.Files[file].lines[line]
			list = append(list, e.replaced(file, line, text[:at[4]]+words+" "+text[at[4]:]))
		})
	}
	return list
}

// After lists files in which words follow a command.
func (e *Editor) After(command *regexp.Regexp, words string) (list [][]Edited) {
	e.found(command, func(file, line int, at []int) {
		text := e.Files[file].lines[line]
		list = append(list, e.replaced(file, line, text[:at[1]]+" "+words+text[at[1]:]))
	})
	return list
}
