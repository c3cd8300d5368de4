// Package formula evaluates expressions over named values, so that computations on the columns of a
// table can be written next to the table. Expressions have the syntax and the precedence of Go. Values
// are numbers, texts and truth values; a text that reads as a number counts as one. Numbers are
// float64, computed operation by operation as in Go.
//
//	pick(bytes > 1e6, bytes / time, 0)
//
// Fill evaluates the expressions that a text has in braces: "{tp} devices".
package formula

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"strconv"
	"strings"
)

// A Scope has the values of names. A name may have dots, and a value is a float64, a string or a bool.
type Scope interface {
	Value(name string) (any, error)
	// Call applies a function that this package does not define.
	Call(name string, arguments []any) (any, error)
}

// Evaluate computes an expression.
func Evaluate(expression string, scope Scope) (any, error) {
	tree, err := parser.ParseExpr(expression)
	if err != nil {
		return nil, fmt.Errorf("formula %q: %w", expression, err)
	}
	value, err := compute(tree, scope)
	if err != nil {
		return nil, fmt.Errorf("formula %q: %w", expression, err)
	}
	return value, nil
}

// Number computes an expression whose value is a number.
func Number(expression string, scope Scope) (float64, error) {
	value, err := Evaluate(expression, scope)
	if err != nil {
		return 0, err
	}
	x, ok := AsNumber(value)
	if !ok {
		return 0, fmt.Errorf("formula %q: %q is not a number", expression, Text(value))
	}
	return x, nil
}

// Holds computes an expression whose value is true or false.
func Holds(expression string, scope Scope) (bool, error) {
	value, err := Evaluate(expression, scope)
	if err != nil {
		return false, err
	}
	truth, ok := AsTruth(value)
	if !ok {
		return false, fmt.Errorf("formula %q: %q is neither true nor false", expression, Text(value))
	}
	return truth, nil
}

// Fill replaces every expression in braces by the text of its value.
func Fill(text string, scope Scope) (string, error) {
	var filled strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		filled.WriteString(before)
		if !found {
			return filled.String(), nil
		}
		expression, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("text %q: a brace is not closed", text)
		}
		value, err := Evaluate(expression, scope)
		if err != nil {
			return "", err
		}
		filled.WriteString(Text(value))
		text = after
	}
}

// Text prints a value; numbers without an exponent.
func Text(value any) string {
	if x, ok := value.(float64); ok {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// AsNumber returns a value as a number, if it is one or reads as one.
func AsNumber(value any) (float64, bool) {
	switch v := value.(type) {
	case float64:
		return v, true
	case string:
		x, err := strconv.ParseFloat(v, 64)
		return x, err == nil
	}
	return 0, false
}

// AsTruth returns a value as a truth value, if it is one or reads as one.
func AsTruth(value any) (truth, ok bool) {
	switch v := value.(type) {
	case bool:
		return v, true
	case string:
		return v == "true", v == "true" || v == "false"
	}
	return false, false
}

func compute(e ast.Expr, scope Scope) (any, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return compute(e.X, scope)
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return strconv.Unquote(e.Value)
		}
		return strconv.ParseFloat(e.Value, 64)
	case *ast.Ident, *ast.SelectorExpr:
		name, err := nameOf(e)
		if err != nil {
			return nil, err
		}
		if name == "true" || name == "false" {
			return name == "true", nil
		}
		return scope.Value(name)
	case *ast.UnaryExpr:
		return unary(e, scope)
	case *ast.BinaryExpr:
		return binary(e, scope)
	case *ast.CallExpr:
		return call(e, scope)
	}
	return nil, fmt.Errorf("%T is not known", e)
}

// nameOf joins a name with dots.
func nameOf(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name, nil
	case *ast.SelectorExpr:
		before, err := nameOf(e.X)
		return before + "." + e.Sel.Name, err
	}
	return "", fmt.Errorf("%T is not a name", e)
}

func unary(e *ast.UnaryExpr, scope Scope) (any, error) {
	value, err := compute(e.X, scope)
	if err != nil {
		return nil, err
	}
	if truth, ok := AsTruth(value); ok && e.Op == token.NOT {
		return !truth, nil
	}
	if x, ok := AsNumber(value); ok && e.Op == token.SUB {
		return -x, nil
	}
	return nil, fmt.Errorf("%s %s", e.Op, Text(value))
}

func binary(e *ast.BinaryExpr, scope Scope) (any, error) {
	left, err := compute(e.X, scope)
	if err != nil {
		return nil, err
	}
	if truth, ok := AsTruth(left); ok && (e.Op == token.LAND && !truth || e.Op == token.LOR && truth) {
		return truth, nil
	}
	right, err := compute(e.Y, scope)
	if err != nil {
		return nil, err
	}
	x, isNumber := AsNumber(left)
	y, areNumbers := AsNumber(right)
	_, isTruth := AsTruth(left)
	truth, areTruths := AsTruth(right)
	var value any
	switch {
	case e.Op == token.LAND || e.Op == token.LOR: // the left side did not decide the result
		if isTruth && areTruths {
			value = truth
		}
	case isNumber && areNumbers:
		value = ofNumbers(e.Op, x, y)
	case isNumber == areNumbers || e.Op == token.EQL || e.Op == token.NEQ || e.Op == token.ADD:
		value = ofTexts(e.Op, Text(left), Text(right))
	}
	if value == nil {
		return nil, fmt.Errorf("%q %s %q", Text(left), e.Op, Text(right))
	}
	return value, nil
}

func ofNumbers(op token.Token, x, y float64) any {
	switch op {
	case token.ADD:
		return x + y
	case token.SUB:
		return x - y
	case token.MUL:
		return x * y
	case token.QUO:
		return x / y
	case token.REM:
		return math.Mod(x, y)
	case token.EQL:
		return x == y
	case token.NEQ:
		return x != y
	case token.LSS:
		return x < y
	case token.LEQ:
		return x <= y
	case token.GTR:
		return x > y
	case token.GEQ:
		return x >= y
	}
	return nil
}

func ofTexts(op token.Token, a, b string) any {
	switch op {
	case token.ADD:
		return a + b
	case token.EQL:
		return a == b
	case token.NEQ:
		return a != b
	case token.LSS:
		return a < b
	case token.LEQ:
		return a <= b
	case token.GTR:
		return a > b
	case token.GEQ:
		return a >= b
	}
	return nil
}
