package launch

import (
	"maps"
	"slices"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// mostTurns limits how often loops and branches of a script are gone through.
const mostTurns = 2000

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
