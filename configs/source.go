package configs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"psim/internal/setting"
)

// A source is one TOML text that was decoded into a Config: a file, or a setting KEY=VALUE.
type source struct {
	label     string // "configs/gpipe.toml", or "schedule.name=1f1b"
	text      string
	lines     bool // it is a file, so that errors give positions
	derived   bool // it follows from the flag or catalog entry in the label; nobody wrote it
	completes bool // it completes a plan that was assumed, and goes when settings are added
	assumed   bool // it is psim's own plan for a network that was named without one
	meta      toml.MetaData
	top       map[string]any
	places    func() map[string]place // only errors need them
	// outOfRange holds errors about values, which count unless a later source replaces the key.
	outOfRange []*setting.Error
}

// newSource parses a text. Syntax errors carry the position.
func newSource(label string, data string, lines bool) (*source, error) {
	s := &source{label: label, text: data, lines: lines}
	meta, err := toml.Decode(data, &s.top)
	if err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			return nil, s.syntaxError(data, parse)
		}
		return nil, s.at(toml.Position{}, "", err.Error())
	}
	s.meta, s.places = meta, sync.OnceValue(func() map[string]place { return places(data) })
	return s, nil
}

// at makes an Error for a position.
func (s *source) at(p toml.Position, key, problem string) *Error {
	e := &Error{Label: s.label, Override: !s.lines && !s.derived, Key: key, Problem: problem}
	if s.lines {
		e.Line, e.Col = p.Line, p.Col
	}
	return e
}

func (s *source) defines(key string) bool { return s.meta.IsDefined(strings.Split(key, ".")...) }

// value returns the value of a key, or nil.
func (s *source) value(key string) any {
	var value any = s.top
	for part := range strings.SplitSeq(key, ".") {
		table, _ := value.(map[string]any)
		value = table[part]
	}
	return value
}

// isTable reports whether a key is a table in the source.
func (s *source) isTable(key string) bool {
	table, is := s.top, true
	for part := range strings.SplitSeq(key, ".") {
		table, is = table[part].(map[string]any)
	}
	return is
}

// decode fills a described struct. Values out of range are left to inRange.
func (s *source) decode(into any) (outOfRange []*setting.Error, err error) {
	var wrong []*setting.Error
	for _, e := range setting.Fill(into, s.top) {
		if e.OutOfRange {
			outOfRange = append(outOfRange, e)
		} else {
			wrong = append(wrong, e)
		}
	}
	return outOfRange, s.first(wrong)
}

// inRange returns an error for a value out of range that no later source replaces.
func inRange(sources []*source) error {
	for i, s := range sources {
		stays := slices.DeleteFunc(slices.Clone(s.outOfRange), func(e *setting.Error) bool {
			return slices.ContainsFunc(sources[i+1:], func(later *source) bool { return later.replaces(e.Key) })
		})
		if err := s.first(stays); err != nil {
			return err
		}
	}
	return nil
}

// replaces reports whether the source gives a key, or sets a table around the key to another value.
func (s *source) replaces(key string) bool {
	list, _, _ := strings.Cut(key, "[")
	var value any = s.top
	for part := range strings.SplitSeq(list, ".") {
		table, ok := value.(map[string]any)
		if !ok {
			break
		}
		if value, ok = table[part]; !ok {
			return false
		}
	}
	return true
}

// first returns the error that comes first in the text.
func (s *source) first(wrong []*setting.Error) error {
	var first *Error
	for _, e := range wrong {
		if at := s.error(e); first == nil || at.Line < first.Line || at.Line == first.Line && at.Col < first.Col {
			first = at
		}
	}
	if first == nil {
		return nil
	}
	return first
}

// error adds the position of its key to an error.
func (s *source) error(e *setting.Error) *Error {
	found, key := s.find(e.Key)
	if !e.Unknown {
		return s.at(found.value, key, e.Error())
	}
	what := "key"
	if !strings.Contains(e.Key, ".") {
		what = "section"
	}
	hint, key := e.Problem, e.Key[strings.LastIndex(e.Key, ".")+1:]
	if in := setting.Tables(Config{}, key); in != nil {
		tables := "[" + strings.Join(in, "] or [") + "]"
		section, _, _ := strings.Cut(e.Key, ".")
		foreign := func(table string) bool {
			return strings.Contains(table, ".") && !strings.HasPrefix(table, section+".")
		}
		switch {
		case strings.Contains(hint, "did you mean"):
			hint += " There is a " + key + " in " + tables
		case !slices.ContainsFunc(in, foreign): // what is a part of another section's is rarely meant
			hint = "; it belongs in " + tables
		default:
			hint += "; there is a " + key + " in " + tables
		}
	}
	return s.at(found.key, "", fmt.Sprintf("unknown %s %q%s", what, e.Key, hint))
}

// A place is the positions of a key and of its value; for a table both are that of its header.
type place struct{ key, value toml.Position }

// places finds the positions of the keys of a text line by line, since the library gives
// positions only in errors. Entries of a list of tables are numbered: "machine.measured[0]".
func places(text string) map[string]place {
	const word = `(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')`
	const dotted = word + `(?:\s*\.\s*` + word + `)*`
	keyLine := regexp.MustCompile(`^\s*(` + dotted + `)\s*=\s*`)
	tableLine := regexp.MustCompile(`^\s*\[\s*(` + dotted + `)\s*\]`)
	entryLine := regexp.MustCompile(`^\s*\[(\[\s*(` + dotted + `)\s*\]\])`)
	found := map[string]place{}
	entries := map[string]int{}
	header := ""
	set := func(path string, line, key, value int) {
		found[path] = place{toml.Position{Line: line + 1, Col: key + 1}, toml.Position{Line: line + 1, Col: value + 1}}
	}
	for n, line := range strings.Split(strings.TrimPrefix(text, "\uFEFF"), "\n") {
		if m := entryLine.FindStringSubmatchIndex(line); m != nil {
			path, at := plainKey(line[m[4]:m[5]]), m[2]-1
			header = fmt.Sprintf("%s[%d].", path, entries[path])
			entries[path]++
			set(path, n, at, at)
			set(strings.TrimSuffix(header, "."), n, at, at)
		} else if m := tableLine.FindStringSubmatchIndex(line); m != nil {
			path := plainKey(line[m[2]:m[3]])
			header = path + "."
			set(path, n, m[2], m[2])
		} else if m := keyLine.FindStringSubmatchIndex(line); m != nil {
			value := m[1]
			if value < len(line) && strings.ContainsRune(`"'[{`, rune(line[value])) {
				value++ // as the library counts
			}
			set(header+plainKey(line[m[2]:m[3]]), n, m[2], value)
		}
	}
	return found
}

// plainKey removes quotes and spaces from a dotted key.
func plainKey(key string) string {
	return strings.NewReplacer(" ", "", "\t", "", `"`, "", "'", "").Replace(key)
}

// find returns the place of a key, or of the nearest one around it that has a place: its entry,
// its table, or the first key in a table without a header. It also returns the key of that place.
func (s *source) find(key string) (place, string) {
	for around := key; around != ""; around = around[:max(0, strings.LastIndexAny(around, ".["))] {
		named := around
		if i := strings.LastIndex(around, "["); i >= 0 && strings.HasSuffix(around, "]") {
			named = around[:i]
		}
		if p, ok := s.places()[around]; ok {
			return p, named
		}
		var inside []place
		for path, p := range s.places() {
			if strings.HasPrefix(path, around+".") {
				inside = append(inside, p)
			}
		}
		if inside != nil {
			first := slices.MinFunc(inside, func(a, b place) int { return a.key.Line - b.key.Line })
			return place{first.key, first.key}, named
		}
	}
	return place{}, key
}
