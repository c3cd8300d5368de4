package configs

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"

	"psim/internal/setting"
)

// decodeList fills a list of tables, entry by entry, and checks each. A list
// replaces what an earlier source gave.
func (s *source) decodeList(p toml.Primitive, into reflect.Value, dotted string) error {
	var tables []any
	var entries []map[string]toml.Primitive
	err := s.meta.PrimitiveDecode(p, &tables)
	for _, t := range tables {
		if _, ok := t.(map[string]any); !ok {
			err = fmt.Errorf("%v is not a table", t)
		}
	}
	if err == nil {
		err = s.meta.PrimitiveDecode(p, &entries)
	}
	if err != nil {
		return s.at(s.atHeader(s.locate(p)), dotted, fmt.Sprintf("must be a list of tables: write [[%s]] above the keys of each", dotted))
	}
	list := reflect.MakeSlice(into.Type(), len(entries), len(entries))
	for i, table := range entries {
		if err := s.decodeEntry(table, list.Index(i), dotted, i); err != nil {
			return err
		}
	}
	into.Set(list)
	return nil
}

// atHeader points at the bracket of a header, where the library names a column
// behind it.
func (s *source) atHeader(p toml.Position) toml.Position {
	lines := strings.Split(s.text, "\n")
	if p.Line >= 1 && p.Line <= len(lines) && strings.HasPrefix(strings.TrimSpace(lines[p.Line-1]), "[") {
		p.Col = strings.Index(lines[p.Line-1], "[") + 1
	}
	return p
}

// decodeEntry fills one table of a list. The library remembers positions by
// key, of the last entry alone, so that those of errors are looked up.
func (s *source) decodeEntry(table map[string]toml.Primitive, into reflect.Value, dotted string, i int) error {
	err := s.decodeTable(table, into, dotted+".")
	if problem, ok := err.(*Error); ok {
		key := problem.Key
		if m := quotedKey.FindStringSubmatch(problem.Problem); key == "" && m != nil {
			key = m[1]
		}
		s.move(problem, dotted, strings.TrimPrefix(key, dotted+"."), i)
		return problem
	}
	if err != nil {
		return err
	}
	if err := setting.Validate(into.Interface()); err != nil {
		problem, key := &Error{Label: s.label, Key: dotted, Problem: err.Error()}, ""
		if m := keyAtStart.FindStringSubmatch(err.Error()); m != nil {
			key = m[1]
			problem.Key, problem.Problem = dotted+"."+key, dotted+"."+err.Error()
		}
		s.move(problem, dotted, key, i)
		return problem
	}
	return nil
}

var quotedKey = regexp.MustCompile(`^unknown key "(.*?)"`)

// move sets the position of an error to the key of the entry with index i of a
// list, to the entry's header where the key is not there, or to none where the
// list is written in another way.
func (s *source) move(e *Error, list, key string, i int) {
	e.Line, e.Col = 0, 0
	if !s.lines {
		return
	}
	header := regexp.MustCompile(`^\s*\[\[\s*` + regexp.QuoteMeta(list) + `\s*\]\]`)
	value := regexp.MustCompile(`^(\s*)` + regexp.QuoteMeta(key) + `(\s*=\s*)`)
	for n, line := range strings.Split(s.text, "\n") {
		found := header.FindString(line) != ""
		switch {
		case found && i == 0:
			e.Line, e.Col = n+1, strings.Index(line, "[")+1
		case found && i < 0 || e.Line > 0 && strings.HasPrefix(strings.TrimSpace(line), "["):
			return
		case e.Line > 0 && key != "":
			if m := value.FindStringSubmatch(line); m != nil {
				e.Line, e.Col = n+1, len(m[0])+1
				if quotedKey.MatchString(e.Problem) {
					e.Col = len(m[1]) + 1
				}
				return
			}
		}
		if found {
			i--
		}
	}
}
