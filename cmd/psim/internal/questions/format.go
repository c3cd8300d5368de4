package questions

import (
	"math"
	"regexp"
	"strconv"
	"time"

	"psim/internal/units"
)

// number prints a whole number, a round and large one as 10e9.
func number(n int64) string {
	if billion := int64(1e9); n >= billion && n%billion == 0 {
		return strconv.FormatInt(n/billion, 10) + "e9"
	}
	return strconv.FormatInt(n, 10)
}

// substitute replaces the symbols of a formula by their values. What is no
// symbol stays.
func substitute(formula string, v values) string {
	return regexp.MustCompile(`\b[A-Za-z]\w*`).ReplaceAllStringFunc(formula, func(name string) string {
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
		return units.FormatDuration(time.Duration(math.Round(x * 1e9)))
	case unit == "fraction":
		return strconv.FormatFloat(x, 'f', 4, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64) + " " + unit
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
	return digits + " " + unit
}

// pair prints both sides of a comparison, with all digits where they differ.
func pair(closedForm, simulated float64, unit string, ok bool) (string, string) {
	if ok {
		return figure(closedForm, unit), figure(simulated, unit)
	}
	return exact(closedForm, unit), exact(simulated, unit)
}

// verdict is the word for a comparison.
func verdict(ok bool) string {
	if ok {
		return "yes"
	}
	return "NO"
}
