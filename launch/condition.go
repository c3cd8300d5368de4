package launch

import (
	"regexp"
	"strconv"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// holds evaluates a condition, if it depends on variables alone.
func (s *shell) holds(stmt *syntax.Stmt) (holds, known bool) {
	if commands(stmt) {
		return false, false
	}
	switch c := stmt.Cmd.(type) {
	case *syntax.TestClause:
		holds, known = s.test(c.X)
	case *syntax.ArithmCmd:
		n, err := expand.Arithm(s.config(), c.X)
		holds, known = n != 0, err == nil
	case *syntax.BinaryCmd:
		x, xKnown := s.holds(c.X)
		y, yKnown := s.holds(c.Y)
		if c.Op == syntax.AndStmt {
			holds, known = x && y, xKnown && yKnown || xKnown && !x || yKnown && !y
		} else {
			holds, known = x || y, xKnown && yKnown || xKnown && x || yKnown && y
		}
	case *syntax.CallExpr:
		words, err := s.fields(c.Args...)
		if err == nil && len(words) > 1 && words[0] == "[" {
			holds, known = testWords(words[1 : len(words)-1])
		} else if err == nil && len(words) > 1 && words[0] == "test" {
			holds, known = testWords(words[1:])
		} else if err == nil && len(words) == 1 && (words[0] == "true" || words[0] == "false") {
			holds, known = words[0] == "true", true
		}
	}
	return holds != stmt.Negated, known
}

// test evaluates what is between [[ and ]].
func (s *shell) test(x syntax.TestExpr) (holds, known bool) {
	switch x := x.(type) {
	case *syntax.ParenTest:
		return s.test(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			holds, known = s.test(x.X)
			return !holds, known
		}
		word, ok := x.X.(*syntax.Word)
		if !ok {
			return false, false
		}
		text, err := expand.Literal(s.config(), word)
		if err != nil {
			return false, false
		}
		return testWords([]string{x.Op.String(), text})
	case *syntax.BinaryTest:
		if x.Op == syntax.AndTest || x.Op == syntax.OrTest {
			a, aKnown := s.test(x.X)
			b, bKnown := s.test(x.Y)
			if x.Op == syntax.AndTest {
				return a && b, aKnown && bKnown || aKnown && !a || bKnown && !b
			}
			return a || b, aKnown && bKnown || aKnown && a || bKnown && b
		}
		a, aOK := x.X.(*syntax.Word)
		b, bOK := x.Y.(*syntax.Word)
		if !aOK || !bOK {
			return false, false
		}
		left, err := expand.Literal(s.config(), a)
		right, err2 := expand.Pattern(s.config(), b)
		if err != nil || err2 != nil {
			return false, false
		}
		if x.Op == syntax.TsMatch || x.Op == syntax.TsMatchShort || x.Op == syntax.TsNoMatch {
			fits, known := matches(right, left)
			return fits == (x.Op != syntax.TsNoMatch), known
		}
		return testWords([]string{left, x.Op.String(), right})
	}
	return false, false
}

// choose follows the first pattern that fits, and what ;& and ;;& add to it.
func (s *shell) choose(c *syntax.CaseClause) error {
	word, err := expand.Literal(s.config(), c.Word)
	if err != nil {
		return s.wrong(c, err)
	}
	on := false // the item before ended with ;&
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			glob, err := expand.Pattern(s.config(), p)
			if err != nil {
				return s.wrong(c, err)
			}
			fits, _ := matches(glob, word)
			on = on || fits
		}
		if !on {
			continue
		}
		if err := s.all(item.Stmts); err != nil || item.Op == syntax.Break || s.ended || s.jump != "" {
			return err
		}
		on = item.Op == syntax.Fallthrough
	}
	return nil
}

// matches reports whether a pattern of bash fits a text, if it is one.
func matches(glob, text string) (fits, known bool) {
	expression, err := pattern.Regexp(glob, pattern.EntireString)
	if err != nil {
		return false, false
	}
	r, err := regexp.Compile(expression)
	return err == nil && r.MatchString(text), err == nil
}

// testWords evaluates a test of words. What asks the file system is not known.
func testWords(words []string) (holds, known bool) {
	switch {
	case len(words) > 1 && words[0] == "!":
		holds, known = testWords(words[1:])
		return !holds, known
	case len(words) == 1:
		return words[0] != "", true
	case len(words) == 2 && words[0] == "-z":
		return words[1] == "", true
	case len(words) == 2 && words[0] == "-n":
		return words[1] != "", true
	case len(words) != 3:
		return false, false
	}
	x, xErr := strconv.Atoi(words[0])
	y, yErr := strconv.Atoi(words[2])
	numbers := xErr == nil && yErr == nil
	switch words[1] {
	case "=", "==":
		return words[0] == words[2], true
	case "!=":
		return words[0] != words[2], true
	case "-eq":
		return x == y, numbers
	case "-ne":
		return x != y, numbers
	case "-gt":
		return x > y, numbers
	case "-ge":
		return x >= y, numbers
	case "-lt":
		return x < y, numbers
	case "-le":
		return x <= y, numbers
	}
	return false, false
}
