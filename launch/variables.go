package launch

import (
	"fmt"
	"slices"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// assign sets variables.
func (s *shell) assign(list []*syntax.Assign) error {
	for _, a := range list {
		if a.Name == nil || a.Naked {
			continue
		}
		old, v := s.variables[a.Name.Value], expand.Variable{Set: true}
		switch {
		case a.Array != nil:
			var err error
			if v, err = s.array(a, old); err != nil {
				return err
			}
		case a.Value != nil || a.Index == nil:
			text := ""
			if a.Value != nil {
				s.unset(a.Value)
				err := s.tooLong(a.Value)
				if err == nil {
					text, err = expand.Literal(s.config(), a.Value)
				}
				if err != nil {
					return s.wrong(a, err)
				}
			}
			v.Kind, v.Str = expand.String, text
			if a.Append && old.Kind == expand.Indexed {
				v = expand.Variable{Set: true, Kind: expand.Indexed, List: append(slices.Clip(old.List), text)}
			} else if a.Append {
				v.Str = old.Str + text
			}
		}
		if len(v.Str) > mostText || len(v.List) > mostWords {
			return s.tooLarge(a)
		}
		s.variables[a.Name.Value] = v
	}
	return nil
}

// tooLarge says that a variable grows too long.
func (s *shell) tooLarge(a *syntax.Assign) error {
	return s.wrong(a, fmt.Errorf("%s becomes longer than %d bytes", a.Name.Value, mostText))
}

// array returns the array that is assigned.
func (s *shell) array(a *syntax.Assign, old expand.Variable) (v expand.Variable, err error) {
	v, size := expand.Variable{Set: true, Kind: expand.Indexed}, 0
	if a.Append {
		v.List = slices.Clip(old.List)
		if old.Kind == expand.String {
			v.List = []string{old.Str}
		}
	}
	for _, e := range a.Array.Elems {
		fields, err := s.fields(e.Value)
		if err != nil {
			return v, s.wrong(a, err)
		}
		v.List = append(v.List, fields...)
		for _, field := range fields {
			size += len(field)
		}
		if size > mostText || len(v.List) > mostWords {
			return v, s.tooLarge(a)
		}
	}
	return v, nil
}

// localize notes what variables of a function were before it.
func (s *shell) localize(list []*syntax.Assign) {
	for _, a := range list {
		if s.locals == nil || a.Name == nil {
			continue
		}
		if _, known := s.locals[a.Name.Value]; !known {
			s.locals[a.Name.Value] = s.variables[a.Name.Value]
		}
	}
}

// tooLong refuses words before they are expanded that would become far longer than is allowed, as a variable that is
// repeated often or put in place of every letter of another.
func (s *shell) tooLong(words ...*syntax.Word) error {
	size := 0
	for _, word := range words {
		syntax.Walk(word, func(n syntax.Node) bool {
			if p, ok := n.(*syntax.ParamExp); ok && p.Param != nil {
				size += s.length(p)
			}
			return size < mostExpanded
		})
	}
	if size >= mostExpanded {
		return fmt.Errorf("its words become longer than %d bytes", mostText)
	}
	return nil
}

// mostExpanded is the length from which on words are not expanded at all.
const mostExpanded = 16 * mostText

// length estimates the length of a variable as it is expanded.
func (s *shell) length(p *syntax.ParamExp) int {
	v := s.Get(p.Param.Value)
	n := len(v.Str)
	for _, item := range v.List {
		n += len(item)
	}
	if p.Repl == nil || p.Repl.With == nil {
		return n
	}
	with := int(p.Repl.With.End().Offset() - p.Repl.With.Pos().Offset())
	syntax.Walk(p.Repl.With, func(inner syntax.Node) bool {
		if q, ok := inner.(*syntax.ParamExp); ok && q.Param != nil {
			with += len(s.Get(q.Param.Value).Str)
		}
		return with < mostExpanded
	})
	return (n + 1) * (with + 1)
}
