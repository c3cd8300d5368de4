package formula

import (
	"errors"
	"fmt"
	"go/ast"
	"math"
	"strconv"
)

// A function takes a number of numbers.
type function struct {
	arguments int
	apply     func(x []float64) any
}

// functions lists them by name; a scope may have others.
var functions = map[string]function{
	"min":   {2, func(x []float64) any { return math.Min(x[0], x[1]) }},
	"max":   {2, func(x []float64) any { return math.Max(x[0], x[1]) }},
	"floor": {1, func(x []float64) any { return math.Floor(x[0]) }},
	"ceil":  {1, func(x []float64) any { return math.Ceil(x[0]) }},
	"round": {1, func(x []float64) any { return math.Round(x[0]) }},
	// The number with a number of decimals.
	"fixed": {2, func(x []float64) any { return strconv.FormatFloat(x[0], 'f', int(x[1]), 64) }},
}

// call applies a function of this package, or one of the scope.
func call(e *ast.CallExpr, scope Scope) (any, error) {
	name, err := nameOf(e.Fun)
	if err != nil {
		return nil, err
	}
	if name == "pick" {
		return pick(e.Args, scope)
	}
	arguments := make([]any, len(e.Args))
	for i, a := range e.Args {
		if arguments[i], err = compute(a, scope); err != nil {
			return nil, err
		}
	}
	f, ok := functions[name]
	if !ok {
		return scope.Call(name, arguments)
	}
	x, err := Numbers(name, arguments, f.arguments)
	if err != nil {
		return nil, err
	}
	return f.apply(x), nil
}

// Numbers returns the arguments of a function that takes a number of numbers.
func Numbers(name string, arguments []any, count int) ([]float64, error) {
	if len(arguments) != count {
		return nil, fmt.Errorf("%s takes %d arguments, not %d", name, count, len(arguments))
	}
	list := make([]float64, count)
	for i, a := range arguments {
		var ok bool
		if list[i], ok = AsNumber(a); !ok {
			return nil, fmt.Errorf("%s: %q is not a number", name, Text(a))
		}
	}
	return list, nil
}

// pick evaluates its condition, and then one of two expressions.
func pick(arguments []ast.Expr, scope Scope) (any, error) {
	if len(arguments) != 3 {
		return nil, errors.New("pick takes a condition and two expressions")
	}
	condition, err := compute(arguments[0], scope)
	if err != nil {
		return nil, err
	}
	truth, ok := AsTruth(condition)
	switch {
	case !ok:
		return nil, fmt.Errorf("pick: %q is neither true nor false", Text(condition))
	case truth:
		return compute(arguments[1], scope)
	}
	return compute(arguments[2], scope)
}
