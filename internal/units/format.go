package units

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// FormatDuration prints d for people with three significant digits, and from a minute up to two days
// with two units: "12 ns", "437 µs", "33.0 ms", "2.80 s", "1 min 23.4 s", "2 h 5 min", "319 days",
// "2.50 years", "0 s".
func FormatDuration(d time.Duration) string {
	n, sign := magnitude(int64(d))
	tenths := rounded(n, uint64(100*time.Millisecond))
	switch {
	case n == 0:
		return "0 s"
	case n < 1000:
		return sign + strconv.FormatUint(n, 10) + " ns"
	case tenths < 600:
		return sign + three(float64(n), []string{"ns", "µs", "ms", "s"})
	case tenths < 36000:
		seconds := strconv.FormatFloat(float64(tenths%600)/10, 'f', 1, 64)
		return sign + strconv.FormatUint(tenths/600, 10) + " min " + seconds + " s"
	}
	minutes := rounded(n, uint64(time.Minute))
	if minutes >= 2*24*60 {
		return sign + days(float64(n)/8.64e13)
	}
	return sign + strconv.FormatUint(minutes/60, 10) + " h " + strconv.FormatUint(minutes%60, 10) + " min"
}

// days prints a number of days, and from two years on years.
func days(n float64) string {
	const year = 365.25
	if n < 2*year {
		return three(n, []string{"days"})
	}
	if n/year < 1000 {
		return three(n/year, []string{"years"})
	}
	return FormatCount(int64(math.Round(n/year))) + " years"
}

// FormatSeconds prints seconds as FormatDuration does, to the nanosecond.
func FormatSeconds(seconds float64) string {
	const most = 9e9 // seconds that a Duration can hold
	switch size := math.Abs(seconds); {
	case math.IsNaN(seconds) || size > 1e18:
		return strconv.FormatFloat(seconds, 'g', 3, 64) + " s"
	case size > most && seconds < 0:
		return "-" + days(size/86400)
	case size > most:
		return days(size / 86400)
	}
	return FormatDuration(time.Duration(math.Round(seconds * 1e9)))
}

// FormatBytes prints n bytes for people, in decimal units with three
// significant digits: "512 B", "1.25 GB", "-640 GB".
func FormatBytes(n int64) string {
	m, sign := magnitude(n)
	if m < 1000 {
		return sign + strconv.FormatUint(m, 10) + " B"
	}
	return sign + three(float64(m), prefixed("B"))
}

// FormatRate prints a rate in bytes per second for people, in decimal units
// with three significant digits: "12.5 GB/s".
func FormatRate(bytesPerSecond float64) string { return three(bytesPerSecond, prefixed("B/s")) }

// FormatFLOPS prints a rate in operations per second for people, with three
// significant digits: "312 TFLOP/s".
func FormatFLOPS(perSecond float64) string { return three(perSecond, prefixed("FLOP/s")) }

// FormatCount prints n in full with its digits in groups of three:
// "124,439,808".
func FormatCount(n int64) string {
	m, sign := magnitude(n)
	s := strconv.FormatUint(m, 10)
	var b strings.Builder
	b.WriteString(sign)
	for i, digit := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}

// Plural prints a number of things: "1 device", "2 devices", "3 microbatches".
func Plural(n int, word string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(word, "ch") && word != "epoch":
		word += "es"
	default:
		word += "s"
	}
	return FormatCount(int64(n)) + " " + word
}

// three prints x with three significant digits, ties to even, in the unit that leaves one to three of
// them before the point. Each unit is a thousand times the one before. Numbers far outside the units
// are printed with an exponent.
func three(x float64, units []string) string {
	if x == 0 {
		return "0 " + units[0]
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return strconv.FormatFloat(x, 'g', -1, 64) + " " + units[0]
	}
	mantissa, exp, _ := strings.Cut(strconv.FormatFloat(x, 'e', 2, 64), "e")
	e, _ := strconv.Atoi(exp)
	i := min(max(e, 0)/3, len(units)-1)
	e -= 3 * i
	if e < -3 || e > 2 {
		return strconv.FormatFloat(x/math.Pow10(3*i), 'e', 2, 64) + " " + units[i]
	}
	digits, _ := strconv.ParseFloat(mantissa, 64)
	return strconv.FormatFloat(digits*math.Pow10(e), 'f', 2-e, 64) + " " + units[i]
}

// prefixed returns base with no prefix, k, M, G, T, P and E.
func prefixed(base string) []string {
	units := []string{base}
	for _, prefix := range "kMGTPE" {
		units = append(units, string(prefix)+base)
	}
	return units
}

// magnitude splits n into its absolute value and its sign, "" or "-".
func magnitude(n int64) (uint64, string) {
	if n < 0 {
		return -uint64(n), "-"
	}
	return uint64(n), ""
}

// rounded divides n by step, to the nearest whole number, half up.
func rounded(n, step uint64) uint64 { return (n + step/2) / step }
