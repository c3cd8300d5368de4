package questions

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
)

// A scope gives the value of a name in a formula, or nil if it does not know the name.
type scope func(name string) constant.Value

// or returns a scope that asks another for the names that s does not know.
func (s scope) or(other scope) scope {
	return func(name string) constant.Value {
		if x := s(name); x != nil {
			return x
		}
		return other(name)
	}
}

// evaluate computes a formula, in exact arithmetic, and rounds once.
func evaluate(formula string, in scope) float64 {
	x, _ := constant.Float64Val(in.evaluate(formula))
	return x
}

// whole computes a formula whose result is a whole number.
func whole(formula string, in scope) int64 {
	n, exact := constant.Int64Val(constant.ToInt(in.evaluate(formula)))
	if !exact {
		panic(fmt.Sprintf("formula %q is not a whole number", formula)) // of questions.toml, which is tested
	}
	return n
}

// holds reports whether a condition is true. An empty one is.
func holds(condition string, in scope) bool {
	return condition == "" || constant.BoolVal(in.evaluate(condition))
}

func (s scope) evaluate(formula string) constant.Value {
	tree, err := parser.ParseExpr(formula)
	if err != nil {
		panic(fmt.Sprintf("formula %q: %v", formula, err)) // of questions.toml, which is tested
	}
	return s.compute(tree)
}

func (s scope) compute(e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return s.compute(e.X)
	case *ast.BinaryExpr:
		x, y := s.compute(e.X), s.compute(e.Y)
		switch e.Op {
		case token.EQL, token.LSS, token.LEQ, token.GTR:
			return constant.MakeBool(constant.Compare(x, e.Op, y))
		}
		return constant.BinaryOp(x, e.Op, y)
	case *ast.CallExpr: // min, of two
		x, y := s.compute(e.Args[0]), s.compute(e.Args[1])
		if constant.Compare(y, token.LSS, x) {
			return y
		}
		return x
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.Ident:
		if x := s(e.Name); x != nil {
			return x
		}
	}
	panic(fmt.Sprintf("formula with %T at %d", e, e.Pos()))
}
