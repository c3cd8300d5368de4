package launch

import (
	"regexp"
	"slices"
	"strings"
)

// What may follow a flag in a line of a script: a word, quoted or not, or for a list several.
const (
	oneWord   = `("[^"\n]*"|'[^'\n]*'|\$\{[^}\n]*\}|\$\(\([^\n]*?\)\)|[^\s"'()\\]+)`
	someWords = `([^-\s"'()\\][^\s"'()\\]*(?:[ \t]+[^-\s"'()\\][^\s"'()\\]*)*)`
)

// anchors are the arguments before whose flags others are put, the best first.
var anchors = []string{
	"tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size", "global_batch_size", "num_layers",
}

// candidates lists files with one change each, that may bring the script nearer to what is wanted.
func (e *editor) candidates() (list [][]edited) {
	values, err := e.values(e.files)
	if err != nil {
		return nil
	}
	for _, name := range e.differ(values) {
		p := megatron().byName[name]
		if p == nil {
			continue
		}
		var words []string
		if value, ok := e.wanted[name]; ok {
			words = Argument{name, value}.words()
		}
		_, given := values[name]
		if given && len(words) > 1 {
			list = append(list, e.revalued(p, strings.Join(words[1:], " "))...)
		}
		if given && len(words) < 2 {
			list = append(list, e.without(p)...)
		}
		if !given && len(words) > 0 {
			for i, word := range words {
				words[i] = quoted(word)
			}
			list = append(list, e.inserted(strings.Join(words, " "))...)
		}
	}
	return list
}

// pattern matches a flag of an argument, after what parts words.
func (p *parameter) pattern(more string) *regexp.Regexp {
	var flags []string
	for flag := range p.flags {
		name := strings.TrimPrefix(flag, "--")
		flags = append(flags, "--"+strings.ReplaceAll(regexp.QuoteMeta(name), "-", "[-_]"))
	}
	slices.Sort(flags)
	return regexp.MustCompile(`(^|[\s"'(=])(` + strings.Join(flags, "|") + `)` + more)
}

// comment reports whether a line of a script is one.
func comment(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "#") }

// replaced returns the files with another line.
func (e *editor) replaced(file, line int, text string) []edited {
	files := slices.Clone(e.files)
	files[file].lines = slices.Clone(files[file].lines)
	files[file].lines[line] = text
	return files
}

// found calls a function for every match of a pattern in a line, comments aside.
func (e *editor) found(pattern *regexp.Regexp, call func(file, line int, at []int)) {
	calls := 0
	for i, f := range e.files {
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

// revalued lists files in which the value of a flag is another one: first where it comes from a variable, and then at
// the flag itself.
func (e *editor) revalued(p *parameter, value string) (list [][]edited) {
	word := oneWord
	if p.list {
		word = someWords
	}
	var direct [][]edited
	e.found(p.pattern(`(=|[ \t]+)`+word), func(file, line int, at []int) {
		text := e.files[file].lines[line]
		word := quoted(value)
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
func (e *editor) assigned(name, value string) (list [][]edited) {
	is := `^(\s*(?:export|local|readonly|declare)?\s*` + name + `="?`
	literal := regexp.MustCompile(is + `)([\w.,-]+)("?\s*(?:[;#].*)?)$`)
	byDefault := regexp.MustCompile(is + `\$\{\w+:?-)([^}$]*)(\}.*)$`)
	for i, f := range e.files {
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

// without lists files in which a flag is left out, and its value.
func (e *editor) without(p *parameter) (list [][]edited) {
	more := `($|[\s"')])`
	for _, value := range p.flags {
		if value == "" {
			more = `(?:=|[ \t]+)` + oneWord
			if p.list {
				more = `(?:=|[ \t]+)` + someWords
			}
		}
		break
	}
	e.found(p.pattern(more), func(file, line int, at []int) {
		text := e.files[file].lines[line]
		end := at[1]
		if strings.HasPrefix(more, `($`) {
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

// inserted lists files in which words stand before another flag of the command.
func (e *editor) inserted(words string) (list [][]edited) {
	for _, name := range anchors {
		e.found(megatron().byName[name].pattern(`[\s=]`), func(file, line int, at []int) {
			text := e.files[file].lines[line]
			list = append(list, e.replaced(file, line, text[:at[4]]+words+" "+text[at[4]:]))
		})
	}
	return list
}
