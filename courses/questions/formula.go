package questions

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
)

// evaluate computes a formula, in exact arithmetic, and rounds once.
func evaluate(formula string, v values) float64 {
	tree, err := parser.ParseExpr(formula)
	if err != nil {
		panic(fmt.Sprintf("formula %q: %v", formula, err)) // of the catalog, whose formulas are tested
	}
	x, _ := constant.Float64Val(v.compute(tree))
	return x
}

func (v values) compute(e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return v.compute(e.X)
	case *ast.BinaryExpr:
		return constant.BinaryOp(v.compute(e.X), e.Op, v.compute(e.Y))
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.Ident:
		if n, ok := v[e.Name]; ok {
			return constant.MakeInt64(n)
		}
	}
	panic(fmt.Sprintf("formula with %T at %d", e, e.Pos()))
}
