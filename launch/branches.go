package launch

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// mostTurns limits how often loops and branches of a script are gone through, and mostCalls how often functions are
// called.
const (
	mostTurns = 2000
	mostCalls = 10_000
)

// loop goes through a loop over words that are known, once for each.
func (s *shell) loop(stmt *syntax.Stmt, c *syntax.ForClause) error {
	if over, ok := c.Loop.(*syntax.CStyleLoop); ok {
		return s.counted(stmt, c, over)
	}
	over, words := c.Loop.(*syntax.WordIter)
	var values []string
	if words && !c.Select {
		var err error
		if values, err = s.fields(over.Items...); err != nil {
			return s.wrong(c, err)
		}
	}
	if s.turns += len(values); len(values) == 0 || s.turns > mostTurns {
		return s.leftOut(stmt)
	}
	before := len(s.starts)
	for _, value := range values {
		s.variables[over.Name.Value] = expand.Variable{Set: true, Kind: expand.String, Str: value}
		if on, err := s.turn(c.Do); err != nil || s.ended || s.jump != "" {
			return err
		} else if !on {
			break
		}
	}
	runs := s.starts[before:]
	if slices.ContainsFunc(runs, func(r []string) bool { return !slices.Equal(r, runs[0]) }) {
		s.note(c, "a loop starts %d trainings; that with %s=%s is read", len(runs), over.Name.Value,
			values[len(values)-1])
	}
	return nil
}

// turn goes through the body of a loop once, and reports whether the loop goes on.
func (s *shell) turn(body []*syntax.Stmt) (on bool, err error) {
	if err := s.all(body); err != nil || s.ended || s.jump == "return" {
		return false, err
	}
	left := s.jump
	if s.levels--; left != "" && s.levels > 0 { // of a loop around this one
		return false, nil
	}
	s.jump = ""
	return left != "break", nil
}

// counted goes through a loop of the form for ((…; …; …)).
func (s *shell) counted(stmt *syntax.Stmt, c *syntax.ForClause, over *syntax.CStyleLoop) error {
	value := func(x syntax.ArithmExpr) (int, bool) {
		if x == nil {
			return 1, true
		}
		n, err := expand.Arithm(s.config(), x)
		return n, err == nil && !commands(x)
	}
	if _, known := value(over.Init); !known {
		return s.leftOut(stmt)
	}
	return s.repeat(stmt, c.Do, func() (bool, bool, error) {
		n, known := value(over.Cond)
		return n != 0, known, nil
	}, func() { value(over.Post) })
}

// while goes through a loop as long as its condition says so. One whose condition is not known is gone through as a
// branch, which is followed once.
func (s *shell) while(stmt *syntax.Stmt, c *syntax.WhileClause) error {
	last := c.Cond[len(c.Cond)-1]
	if !isCondition(last) && !starts(last) { // such as read, or the test of a port
		return s.both(&syntax.IfClause{Position: c.Pos(), Cond: c.Cond, Then: c.Do})
	}
	return s.repeat(stmt, c.Do, func() (holds, known bool, err error) {
		if err := s.all(c.Cond[:len(c.Cond)-1]); err != nil {
			return false, false, err
		}
		holds, known, err = s.status(last)
		return holds != c.Until, known, err
	}, func() {})
}

// repeat goes through the body of a loop until its condition fails or the body leaves it, once if nothing would ever
// change that. It leaves out a loop whose condition is not known, or that is too long.
func (s *shell) repeat(
	stmt *syntax.Stmt, body []*syntax.Stmt, condition func() (holds, known bool, err error), after func(),
) error {
	start := s.state()
	for {
		before := maps.Clone(s.variables)
		holds, known, err := condition()
		if err != nil {
			return err
		}
		if s.turns++; !known || s.turns > mostTurns {
			s.become(start)
			return s.leftOut(stmt)
		}
		if !holds {
			return nil
		}
		if on, err := s.turn(body); err != nil || !on {
			return err
		}
		if after(); len(unlike(before, s.variables)) == 0 {
			return nil
		}
	}
}

// leftOut says that a loop is, if it could matter.
func (s *shell) leftOut(stmt *syntax.Stmt) error {
	if starts(stmt) || assigns(stmt) {
		s.note(stmt, "a loop is left out")
	}
	return nil
}

// function runs the body of a function, and puts back what is local to it.
func (s *shell) function(body *syntax.Stmt) error {
	outer := s.locals
	s.locals = map[string]expand.Variable{}
	err := s.statement(body)
	for name, v := range s.locals {
		if s.variables[name] = v; !v.IsSet() {
			delete(s.variables, name)
		}
	}
	if s.locals = outer; s.jump == "return" {
		s.jump = ""
	}
	return err
}

// apart runs a subshell or a pipe, whose variables are its own.
func (s *shell) apart(run func() error) error {
	before, functions, ended := maps.Clone(s.variables), maps.Clone(s.functions), s.ended
	err := run()
	s.variables, s.functions, s.ended, s.jump = before, functions, ended, ""
	return err
}

// joined follows commands that && or || join, and reports whether they succeed. The second runs as the first decides: a
// condition by what is known of it, and any other command is taken to succeed.
func (s *shell) joined(c *syntax.BinaryCmd) (succeeds bool, err error) {
	succeeds, known, err := s.status(c.X)
	and := c.Op == syntax.AndStmt
	switch {
	case err != nil || s.ended || s.jump != "":
		return succeeds, err
	case !known && and:
		return true, s.both(&syntax.IfClause{Position: c.Pos(), Cond: []*syntax.Stmt{c.X}, Then: []*syntax.Stmt{c.Y}})
	case !known:
		otherwise := &syntax.IfClause{Position: c.Pos(), Then: []*syntax.Stmt{c.Y}}
		return true, s.both(&syntax.IfClause{Position: c.Pos(), Cond: []*syntax.Stmt{c.X}, Else: otherwise})
	case succeeds == and:
		succeeds, _, err = s.status(c.Y)
		return succeeds, err
	}
	return succeeds, nil
}

// status runs a statement, and reports whether it succeeds, if that is known.
func (s *shell) status(stmt *syntax.Stmt) (succeeds, known bool, err error) {
	if c, ok := stmt.Cmd.(*syntax.BinaryCmd); ok && !isCondition(stmt) && !stmt.Negated &&
		(c.Op == syntax.AndStmt || c.Op == syntax.OrStmt) {
		succeeds, err = s.joined(c)
		return succeeds, true, err
	}
	if isCondition(stmt) {
		succeeds, known = s.holds(stmt)
		return succeeds, known, nil
	}
	return !stmt.Negated, true, s.statement(stmt)
}

// isCondition reports whether a statement only asks for something.
func isCondition(stmt *syntax.Stmt) bool {
	switch c := stmt.Cmd.(type) {
	case *syntax.TestClause, *syntax.ArithmCmd:
		return true
	case *syntax.CallExpr:
		return len(c.Args) > 0 && slices.Contains([]string{"[", "test", "true", "false"}, c.Args[0].Lit())
	case *syntax.BinaryCmd:
		return (c.Op == syntax.AndStmt || c.Op == syntax.OrStmt) && isCondition(c.X) && isCondition(c.Y)
	}
	return false
}

// commands reports whether a piece of a script asks a command.
func commands(n syntax.Node) (found bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		_, is := n.(*syntax.CmdSubst)
		found = found || is
		return !found
	})
	return found
}

// starts reports whether a piece of a script may start a training.
func starts(n syntax.Node) bool { return strings.Contains(printed(n), "--") }

// assigning are commands that may set variables.
var assigning = []string{"shift", "eval", "set", "source", "."}

// assigns reports whether a piece of a script sets a variable.
func assigns(n syntax.Node) (found bool) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign, *syntax.ArithmCmd, *syntax.LetClause:
			found = true
		case *syntax.CallExpr:
			found = found || len(n.Args) > 0 && slices.Contains(assigning, n.Args[0].Lit())
		}
		return !found
	})
	return found
}

// A state is what a branch of a script may change.
type state struct {
	variables map[string]expand.Variable
	functions map[string]*syntax.Stmt
	written   map[string]Input
	starts    [][]string
	notes     []string
	nodes     nodes
	ended     bool
	jump      string
}

// state returns a copy of what a branch may change.
func (s *shell) state() state {
	return state{
		variables: maps.Clone(s.variables), functions: maps.Clone(s.functions), written: maps.Clone(s.written),
		starts: slices.Clip(s.starts), notes: slices.Clip(s.arguments.notes), nodes: s.arguments.nodes, ended: s.ended,
		jump: s.jump,
	}
}

// become puts a state in place.
func (s *shell) become(t state) {
	s.variables, s.functions, s.written = t.variables, t.functions, t.written
	s.starts, s.ended, s.jump = t.starts, t.ended, t.jump
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
	s.variables, s.functions = maps.Clone(before.variables), maps.Clone(before.functions)
	s.written = maps.Clone(before.written)
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
		if x.Str != y.Str || !slices.Equal(x.List, y.List) || !maps.Equal(x.Map, y.Map) || x.IsSet() != y.IsSet() {
			names = append(names, name)
		}
	}
	return names
}
