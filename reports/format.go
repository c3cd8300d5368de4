package reports

import (
	"math"
	"strconv"
	"strings"
	"time"

	"psim/internal/units"
)

// duration prints seconds for people.
func duration(seconds float64) string {
	if math.IsNaN(seconds) || math.Abs(seconds) > 9e9 {
		return strconv.FormatFloat(seconds, 'g', 3, 64) + " s"
	}
	return units.FormatDuration(time.Duration(math.Round(seconds * 1e9)))
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

// perSecondText prints at least three significant digits, and no exponent.
func perSecondText(x float64) string {
	if x < 100 {
		decimals := max(0, 2-int(math.Floor(math.Log10(x))))
		return strconv.FormatFloat(x, 'f', decimals, 64)
	}
	if x > 1e18 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	return units.FormatCount(int64(math.Round(x)))
}

// SignedPercent prints a fraction as a percentage with its sign, also where that
// is +: "+1.9 %", "−0.2 %", "0.0 %".
func SignedPercent(fraction float64) string {
	text := strconv.FormatFloat(100*fraction, 'f', 1, 64)
	switch {
	case text == "0.0" || text == "-0.0":
		return "0.0 %"
	case fraction > 0:
		text = "+" + text
	}
	return strings.Replace(text, "-", "−", 1) + " %"
}

// Points prints a difference of shares in percentage points: "−0.1 points".
func Points(difference float64) string {
	return strings.TrimSuffix(SignedPercent(difference), " %") + " points"
}
