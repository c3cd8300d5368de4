package launch

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// mostTurns limits how often loops and branches of a script are gone through.
const mostTurns = 2000

// loop goes through a loop over words that are known, once for each. Of a loop that may end early only the first turn
// counts.
func (s *shell) loop(stmt *syntax.Stmt, c *syntax.ForClause) error {
	over, words := c.Loop.(*syntax.WordIter)
	var values []string
	if words && !c.Select {
		var err error
		if values, err = s.fields(over.Items...); err != nil {
			return s.wrong(c, err)
		}
	}
	if jumps(c, "break") {
		values = values[:min(1, len(values))]
	}
	if s.turns += len(values); len(values) == 0 || s.turns > mostTurns || jumps(c, "continue") {
		if starts(stmt) || assigns(stmt) {
			s.note(stmt, "a loop is left out")
		}
		return nil
	}
	before := len(s.starts)
	for _, value := range values {
		s.variables[over.Name.Value] = expand.Variable{Set: true, Kind: expand.String, Str: value}
		if err := s.all(c.Do); err != nil || s.ended {
			return err
		}
	}
	runs := s.starts[before:]
	if slices.ContainsFunc(runs, func(r []string) bool { return !slices.Equal(r, runs[0]) }) {
		s.note(c, "a loop starts %d trainings; that with %s=%s is read", len(runs), over.Name.Value,
			values[len(values)-1])
	}
	return nil
}

// jumps reports whether a loop has a command that leaves a turn of it.
func jumps(c *syntax.ForClause, command string) (found bool) {
	syntax.Walk(c, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 && call.Args[0].Lit() == command {
			found = true
		}
		return !found
	})
	return found
}

// A state is what a branch of a script may change.
type state struct {
	variables map[string]expand.Variable
	starts    [][]string
	notes     []string
	nodes     nodes
	ended     bool
}

// state returns a copy of what a branch may change.
func (s *shell) state() state {
	return state{
		variables: maps.Clone(s.variables), starts: slices.Clip(s.starts), notes: slices.Clip(s.arguments.notes),
		nodes: s.arguments.nodes, ended: s.ended,
	}
}

// become puts a state in place.
func (s *shell) become(t state) {
	s.variables, s.starts, s.ended = t.variables, t.starts, t.ended
	s.arguments.notes, s.arguments.nodes = t.notes, t.nodes
}

// both follows both branches of a condition that is not known. The one that starts a training counts, else the second,
// and variables that the two leave otherwise are named. A branch that ends the script, or
// cannot be read, does not count.
func (s *shell) both(c *syntax.IfClause) error {
	condition := source(c.Cond[len(c.Cond)-1])
	if s.turns++; s.turns > mostTurns {
		s.note(c, "whether %s is not known: what follows is left out", condition)
		return nil
	}
	before := s.state()
	failed := s.all(c.Then)
	first := s.state()
	s.become(before)
	s.variables = maps.Clone(before.variables)
	var err error
	if c.Else != nil {
		err = s.branch(c.Else)
	}
	second := s.state()
	switch first.ended = first.ended || failed != nil; {
	case (second.ended || err != nil) && !first.ended:
		s.become(first)
		return nil
	case first.ended:
		return err
	}
	more, other := len(first.starts)-len(before.starts), len(second.starts)-len(before.starts)
	if more > 0 && other == 0 {
		s.become(first)
		s.note(c, "whether %s is not known: the training that it would start is read", condition)
		return nil
	}
	if names := unlike(first.variables, second.variables); len(names) > 0 {
		s.note(c, "whether %s is not known: it is taken as false; true would set %s otherwise", condition,
			strings.Join(names, ", "))
	} else if more > 0 && !slices.EqualFunc(first.starts, second.starts, slices.Equal) {
		s.note(c, "whether %s is not known: the training that else starts is read", condition)
	}
	return nil
}

// unlike lists the variables that are not the same in two states.
func unlike(a, b map[string]expand.Variable) (names []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		x, y := a[name], b[name]
		if x.Str != y.Str || !slices.Equal(x.List, y.List) || x.IsSet() != y.IsSet() {
			names = append(names, name)
		}
	}
	return names
}
