package configs

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"psim/internal/setting"
)

// A source is one TOML text that was decoded into a Config: a file or the
// value of a --set flag.
type source struct {
	label string // "configs/gpipe.toml", or `--set schedule.name=1f1b`
	text  string
	lines bool // whether positions within the text help
	meta  toml.MetaData
	top   map[string]toml.Primitive
}

// newSource parses a text. Syntax errors carry the position.
func newSource(label string, data string, lines bool) (*source, error) {
	s := &source{label: label, text: data, lines: lines, top: map[string]toml.Primitive{}}
	meta, err := toml.Decode(data, &s.top)
	if err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			return nil, s.at(parse.Position, "", parse.Message)
		}
		return nil, &Error{Label: label, Problem: err.Error()}
	}
	s.meta = meta
	return s, nil
}

// at makes an Error for a position.
func (s *source) at(p toml.Position, key, problem string) *Error {
	e := &Error{Label: s.label, Key: key, Problem: problem}
	if s.lines {
		e.Line, e.Col = p.Line, p.Col
	}
	return e
}

func (s *source) defines(key string) bool { return s.meta.IsDefined(strings.Split(key, ".")...) }

// decode fills a struct from the tables of the source, key by key, so that
// every error has a key and a position.
func (s *source) decode(into any) error {
	return s.decodeTable(s.top, reflect.ValueOf(into).Elem(), "")
}

func (s *source) decodeTable(table map[string]toml.Primitive, into reflect.Value, prefix string) error {
	for _, key := range s.inOrder(table, prefix) {
		primitive, dotted := table[key], prefix+key
		field, ok := setting.Field(into, key)
		if !ok {
			return s.unknown(primitive, dotted, key, into)
		}
		var err error
		switch {
		case setting.IsTable(field):
			inner, ok := s.table(primitive)
			if !ok {
				return s.at(s.locate(primitive), dotted, fmt.Sprintf("must be a table: write [%s] and its keys below it", dotted))
			}
			err = s.decodeTable(inner, field, dotted+".")
		case setting.IsList(field):
			err = s.decodeList(primitive, field, dotted)
		default:
			described, _ := setting.Find(into, key)
			err = s.decodeValue(primitive, field, dotted, described)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeValue sets a field, and checks it.
func (s *source) decodeValue(p toml.Primitive, field reflect.Value, dotted string, described setting.Setting) error {
	var value any
	err := s.meta.PrimitiveDecode(p, &value)
	if err == nil {
		err = setting.Assign(field, value)
	}
	if err == nil {
		err = described.Check(dotted, field)
	}
	if err != nil {
		return s.valueError(p, dotted, err.Error())
	}
	return nil
}

// table reads a value as a table.
func (s *source) table(p toml.Primitive) (map[string]toml.Primitive, bool) {
	var value any
	if err := s.meta.PrimitiveDecode(p, &value); err != nil {
		return nil, false
	}
	if _, ok := value.(map[string]any); !ok { // decoding into a map would not complain
		return nil, false
	}
	table := map[string]toml.Primitive{}
	return table, s.meta.PrimitiveDecode(p, &table) == nil
}

// valueError is the error for a value. Where that is a table which decodes
// itself and the problem begins with a key in it, or with an entry of a list that
// is one, the error is that key's.
func (s *source) valueError(p toml.Primitive, dotted, problem string) *Error {
	if m := keyAtStart.FindStringSubmatch(problem); m != nil && s.defines(dotted+"."+m[1]) {
		return s.at(s.find(dotted+"."+m[1]), dotted+"."+m[1], dotted+"."+problem)
	}
	if key, _, ok := strings.Cut(problem, "["); ok && s.defines(dotted+"."+key) {
		return s.at(s.find(dotted+"."+key), dotted+"."+key, dotted+"."+problem)
	}
	return s.at(s.locate(p), dotted, problem)
}

// isKey reports whether a dotted key exists.
func isKey(dotted string) bool {
	v := reflect.ValueOf(Config{})
	for key := range strings.SplitSeq(dotted, ".") {
		if v.Kind() != reflect.Struct {
			return false
		}
		var ok bool
		if v, ok = setting.Field(v, key); !ok {
			return false
		}
	}
	return true
}

// inOrder lists the keys of a table as they stand in the text, so that the
// first error is the first in the file.
func (s *source) inOrder(table map[string]toml.Primitive, prefix string) []string {
	var keys []string
	seen := map[string]bool{}
	depth := strings.Count(prefix, ".")
	for _, k := range s.meta.Keys() {
		if len(k) > depth && strings.HasPrefix(k.String()+".", prefix) {
			if _, ok := table[k[depth]]; ok && !seen[k[depth]] {
				seen[k[depth]] = true
				keys = append(keys, k[depth])
			}
		}
	}
	return keys
}

// unknown is the error for a key that does not exist.
func (s *source) unknown(p toml.Primitive, dotted, key string, into reflect.Value) error {
	var known []string
	for k := range setting.Fields(into) {
		known = append(known, k)
	}
	slices.Sort(known)
	what := "key"
	if !strings.Contains(dotted, ".") {
		what = "section"
	}
	return s.at(s.keyPosition(p, key), "", fmt.Sprintf("unknown %s %q%s", what, dotted, setting.Meant(key, known)))
}

// keyPosition is where the name of a key stands, on the line of its value or,
// for a table, of its header.
func (s *source) keyPosition(p toml.Primitive, key string) toml.Position {
	pos := s.locate(p)
	lines := strings.Split(s.text, "\n")
	if pos.Line >= 1 && pos.Line <= len(lines) {
		if i := strings.Index(lines[pos.Line-1], key); i >= 0 {
			pos.Col = i + 1
		}
		return pos
	}
	// A table that only dotted keys imply has no position: take the first line
	// that begins with its name.
	for n, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), key+".") {
			return toml.Position{Line: n + 1, Col: strings.Index(line, key) + 1}
		}
	}
	return pos
}

// locator fails to decode anything, because the failure tells the position.
type locator struct{}

func (locator) UnmarshalTOML(any) error { return errors.New("located") }

// locate finds where a value stands. BurntSushi/toml tells positions only in
// errors.
func (s *source) locate(p toml.Primitive) toml.Position {
	var parse toml.ParseError
	if err := s.meta.PrimitiveDecode(p, &locator{}); errors.As(err, &parse) {
		return parse.Position
	}
	return toml.Position{}
}

// find locates a dotted key.
func (s *source) find(key string) toml.Position {
	table := s.top
	parts := strings.Split(key, ".")
	for i, part := range parts {
		p, ok := table[part]
		if !ok {
			return toml.Position{}
		}
		if i == len(parts)-1 {
			return s.locate(p)
		}
		if table, ok = s.table(p); !ok {
			return toml.Position{}
		}
	}
	return toml.Position{}
}
