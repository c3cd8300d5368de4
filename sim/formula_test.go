package sim_test

import (
	"fmt"
	"math"
	"strings"
	"unicode"
)

// A formula reads the formulas of the catalog, as they are printed: sums,
// products without a sign, quotients whose divisor is the whole product after
// the stroke (P/2M is P over 2M, P/2*M is P over 2 times M), ⌊…⌋, ⌈…⌉, log2(…),
// min(…, …) and max(…, …), over numbers
// and the names that it is given values for.
type formula struct {
	rest   string
	values map[string]float64
}

// evaluate is the value of a formula.
func evaluate(text string, values map[string]float64) (value float64, err error) {
	f := formula{strings.ReplaceAll(text, " ", ""), values}
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%q: %v", text, problem)
		}
	}()
	value = f.sum()
	if f.rest != "" {
		panic("cannot read " + f.rest)
	}
	return value, nil
}

// takes moves past a sign, if it comes next.
func (f *formula) takes(sign string) bool {
	rest, ok := strings.CutPrefix(f.rest, sign)
	if ok {
		f.rest = rest
	}
	return ok
}

func (f *formula) needs(sign string) {
	if !f.takes(sign) {
		panic("needs " + sign + " before " + f.rest)
	}
}

func (f *formula) sum() float64 {
	value := f.quotient()
	for {
		switch {
		case f.takes("+"):
			value += f.quotient()
		case f.takes("-"):
			value -= f.quotient()
		default:
			return value
		}
	}
}

func (f *formula) quotient() float64 {
	value := f.product()
	for {
		switch {
		case f.takes("/"):
			value /= f.product()
		case f.takes("*"):
			value *= f.product()
		default:
			return value
		}
	}
}

func (f *formula) product() float64 {
	value := f.factor()
	for f.rest != "" && !strings.ContainsAny(f.rest[:1], "+-/*),") && !strings.HasPrefix(f.rest, "⌋") && !strings.HasPrefix(f.rest, "⌉") {
		value *= f.factor()
	}
	return value
}

func (f *formula) factor() float64 {
	switch {
	case f.takes("("):
		value := f.sum()
		f.needs(")")
		return value
	case f.takes("⌊"):
		value := f.sum()
		f.needs("⌋")
		return math.Floor(value)
	case f.takes("⌈"):
		value := f.sum()
		f.needs("⌉")
		return math.Ceil(value)
	case f.takes("log2("):
		value := f.sum()
		f.needs(")")
		return math.Log2(value)
	case f.takes("min("):
		return f.pair(math.Min)
	case f.takes("max("):
		return f.pair(math.Max)
	}
	digits := len(f.rest) - len(strings.TrimLeftFunc(f.rest, unicode.IsDigit))
	if digits > 0 {
		var n float64
		fmt.Sscan(f.rest[:digits], &n)
		f.rest = f.rest[digits:]
		return n
	}
	for _, length := range []int{len("F&B"), 1} {
		if len(f.rest) < length {
			continue
		}
		if value, known := f.values[f.rest[:length]]; known && f.takes(f.rest[:length]) {
			return value
		}
	}
	panic("cannot read " + f.rest)
}

// pair reads the rest of min(…, …) or max(…, …).
func (f *formula) pair(choose func(a, b float64) float64) float64 {
	a := f.sum()
	f.needs(",")
	b := f.sum()
	f.needs(")")
	return choose(a, b)
}

// holds reports whether a condition such as M>=2P-1, P|M or F=I=W does.
func holds(condition string, values map[string]float64) (bool, error) {
	for _, c := range []struct {
		sign string
		is   func(a, b float64) bool
	}{
		{">=", func(a, b float64) bool { return a >= b }},
		{"<=", func(a, b float64) bool { return a <= b }},
		{">", func(a, b float64) bool { return a > b }},
		{"<", func(a, b float64) bool { return a < b }},
		{"=", func(a, b float64) bool { return a == b }},
		{"|", func(a, b float64) bool { return math.Mod(b, a) == 0 }},
	} {
		sides := strings.Split(condition, c.sign)
		if len(sides) < 2 {
			continue
		}
		all := true
		for i := range sides[1:] {
			a, err := evaluate(sides[i], values)
			if err != nil {
				return false, err
			}
			b, err := evaluate(sides[i+1], values)
			if err != nil {
				return false, err
			}
			all = all && c.is(a, b)
		}
		return all, nil
	}
	return false, fmt.Errorf("%q is not a condition", condition)
}

// clauses cuts a formula from its conditions, at the commas outside brackets.
func clauses(text string) (value string, conditions []string) {
	depth, from := 0, 0
	var parts []string
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts, from = append(parts, strings.TrimSpace(text[from:i])), i+1
		}
	}
	parts = append(parts, strings.TrimSpace(text[from:]))
	return parts[0], parts[1:]
}
