package formula

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// names is a scope of values; it has a function that doubles.
type names map[string]any

func (n names) Value(name string) (any, error) {
	if value, ok := n[name]; ok {
		return value, nil
	}
	return nil, fmt.Errorf("no value %s", name)
}

func (n names) Call(name string, arguments []any) (any, error) {
	x, err := Numbers(name, arguments, 1)
	if err != nil || name != "twice" {
		return nil, errors.Join(err, errors.New("no function "+name))
	}
	return 2 * x[0], nil
}

func TestEvaluate(t *testing.T) {
	scope := names{"p": "8", "m": 24., "model": "22b", "train.stack": "none", "used": "", "x": 0.1, "yes": "true"}
	for expression, want := range map[string]any{
		"1 + 2*3":                           7.,
		"(m - 1) / p":                       23. / 8,
		"m % p == 0 && p > 4":               true,
		"-p + 2e1":                          12.,
		"x * 3":                             0.1 * three, // as Go computes it, not in exact arithmetic
		`used != "" || model == "22b"`:      true,
		`!(model < "a")`:                    false,
		`model + "-" + p`:                   "22b-8",
		"p + p":                             16.,
		"train.stack":                       "none",
		`pick(used == "", p, nosuch)`:       "8",
		"max(min(p, 3), 2)":                 3.,
		"floor(2.5) + ceil(2.5) + round(3)": 8.,
		`!yes || yes && p == "8"`:           true,
		"fixed(2.345, 2)":                   "2.35",
		"twice(m)":                          48.,
	} {
		got, err := Evaluate(expression, scope)
		require.NoError(t, err, expression)
		require.Equal(t, want, got, expression)
	}
}

// three is no constant, so that Go multiplies by it when the test runs.
var three = 3.0

func TestErrors(t *testing.T) {
	scope := names{"p": "8", "text": "a", "yes": true}
	for expression, want := range map[string]string{
		"1 +":             "expected operand",
		"nosuch":          "no value nosuch",
		"p < text":        `"8" < "a"`,
		"text - text":     `"a" - "a"`,
		"p && yes":        `"8" && "true"`,
		"!p":              "! 8",
		"p[1]":            "is not known",
		"min(p)":          "takes 2 arguments",
		"floor(text)":     `"a" is not a number`,
		"pick(p, 1, 2)":   "neither true nor false",
		"pick(yes)":       "takes a condition",
		"thrice(p)":       "no function thrice",
		"func() int{}(p)": "is not a name",
	} {
		_, err := Evaluate(expression, scope)
		require.ErrorContains(t, err, want, expression)
	}
	_, err := Number("text", scope)
	require.ErrorContains(t, err, "is not a number")
	_, err = Holds("p", scope)
	require.ErrorContains(t, err, "neither true nor false")
}

func TestFill(t *testing.T) {
	scope := names{"p": "8", "rate": 25e6}
	text, err := Fill("p={p} and {rate}, {fixed(rate / 1e6, 1)}", scope)
	require.NoError(t, err)
	require.Equal(t, "p=8 and 25000000, 25.0", text)
	for _, wrong := range []string{"{p", "{nosuch}"} {
		_, err = Fill(wrong, scope)
		require.Error(t, err)
	}
}
