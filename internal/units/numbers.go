package units

import (
	"math"
	"strconv"
	"strings"
)

// FormatPercent prints a share: "29.3 %".
func FormatPercent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

// FormatPerSecond prints a number of things in a second with at least three significant digits, and no exponent.
func FormatPerSecond(x float64) string {
	if x < 100 {
		decimals := max(0, 2-int(math.Floor(math.Log10(x))))
		return strconv.FormatFloat(x, 'f', decimals, 64)
	}
	if x > 1e18 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	return FormatCount(int64(math.Round(x)))
}

// FormatSignedPercent prints a fraction as a percentage with its sign, also where that
// is +: "+1.9 %", "−0.2 %", "0.0 %".
func FormatSignedPercent(fraction float64) string {
	text := strconv.FormatFloat(100*fraction, 'f', 1, 64)
	switch {
	case text == "0.0" || text == "-0.0":
		return "0.0 %"
	case fraction > 0:
		text = "+" + text
	}
	return strings.Replace(text, "-", "−", 1) + " %"
}

// FormatPoints prints a difference of shares in percentage points: "−0.1 points".
func FormatPoints(difference float64) string {
	return strings.TrimSuffix(FormatSignedPercent(difference), " %") + " points"
}
