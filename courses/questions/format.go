package questions

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"psim/internal/units"
)

// number prints a whole number, a round and large one as 10e9.
func number(n int64) string {
	if billion := int64(1e9); n >= billion && n%billion == 0 {
		return strconv.FormatInt(n/billion, 10) + "e9"
	}
	return strconv.FormatInt(n, 10)
}

// symbol matches a name in a formula.
var symbol = regexp.MustCompile(`\b[A-Za-z]\w*`)

// substitute replaces the symbols of a formula by their values. Other names stay.
func substitute(formula string, v values) string {
	return symbol.ReplaceAllStringFunc(formula, func(name string) string {
		if n, ok := v[name]; ok {
			return number(n)
		}
		return name
	})
}

// figure prints a quantity for people, with three or four digits.
func figure(x float64, unit string) string {
	switch {
	case unit == "bytes":
		return units.FormatBytes(int64(x))
	case unit == "GB":
		return units.FormatBytes(int64(math.Round(x * 1e9)))
	case unit == "GiB":
		return strconv.FormatFloat(x, 'f', 1, 64) + " GiB"
	case unit == "s" && x >= 10 && x < 60:
		return strconv.FormatFloat(x, 'f', 2, 64) + " s"
	case unit == "s" && x < 1e6:
		return units.FormatSeconds(x)
	case unit == "s":
		return strconv.FormatFloat(x/1e6, 'g', 3, 64) + " million s"
	case unit == "fraction":
		return strconv.FormatFloat(100*x, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(x, 'g', 4, 64) + " " + plural(x, unit)
}

// plural writes a unit as it stands after a number. Units of one letter have no plural.
func plural(x float64, unit string) string {
	switch {
	case x != 1 || len(unit) == 1:
		return unit
	case strings.HasSuffix(unit, "ches"):
		return strings.TrimSuffix(unit, "es")
	}
	return strings.TrimSuffix(unit, "s")
}

// exact prints a quantity with all of its digits.
func exact(x float64, unit string) string {
	digits := strconv.FormatFloat(x, 'f', -1, 64)
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		digits = units.FormatCount(int64(x))
	}
	if unit == "fraction" {
		return digits
	}
	return digits + " " + plural(x, unit)
}

// readable prints a quantity for an answer sheet: whole numbers with all of their digits,
// fractions with four and others with six, or all before the point.
func readable(x float64, unit string) string {
	digits := 6
	switch {
	case x == math.Trunc(x) || x >= 1e6:
		return exact(math.Round(x), unit)
	case unit == "fraction":
		digits = 4
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	return exact(rounded, unit)
}

// both prints as readable does, and adds a rounded size to many bytes and a percentage to a
// fraction.
func both(x float64, unit string) string {
	if unit == "fraction" || unit == "bytes" && x >= 1000 {
		return readable(x, unit) + " (" + figure(x, unit) + ")"
	}
	return readable(x, unit)
}

// pair prints both sides of a check in a form, and with all digits if they differ.
func (c Check) pair(form func(float64, string) string) (closedForm, simulated string) {
	if !c.OK {
		form = exact
	}
	closedForm, simulated = form(c.ClosedForm, c.Unit), form(c.Simulated, c.Unit)
	if c.AtLeast {
		closedForm = "at least " + closedForm
	}
	return closedForm, simulated
}

// check returns the comparison that the question asks for.
func (a QuestionAnswer) check() Check {
	return Check{ClosedForm: a.ClosedForm, Simulated: a.Simulated, Unit: a.Unit, OK: a.OK}
}

func yesOrNo(ok bool) string {
	if ok {
		return "yes"
	}
	return "NO"
}
