package figures

import (
	"math"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"

	"psim/internal/units"
	"psim/reports/chart"
)

// A quantity says how a number is drawn: on which axis, and how it is written.
type quantity struct {
	label string
	axis  func(a *plot.Axis, label string, most float64)
	text  func(float64) string
	scale float64 // of a number on the axis
}

// seconds returns the quantity of a time.
func seconds(label string) quantity {
	return quantity{label, func(a *plot.Axis, label string, most float64) {
		chart.Time(a, label, time.Duration(most), 6)
	}, units.FormatSeconds, 1e9}
}

// bytes returns the quantity of an amount of memory.
func bytes(label string) quantity {
	return quantity{label, func(a *plot.Axis, label string, most float64) {
		chart.Bytes(a, chart.Scale{Label: label, High: math.Trunc(most), Intervals: 6})
	}, func(x float64) string { return units.FormatBytes(int64(math.Round(x))) }, 1}
}

// numbers returns the quantity of any other number; unit may be empty.
func numbers(label, unit string, scale float64) quantity {
	return quantity{label, func(a *plot.Axis, label string, most float64) {
		chart.Numbers(a, chart.Scale{Label: label, High: most, Intervals: 6, Unit: unit})
	}, func(x float64) string { return short(x * scale) }, scale}
}

// shares returns the quantity of a fraction, as a percentage of what the unit says.
func shares(label, unit string) quantity {
	q := numbers(label, unit, 100)
	q.text = units.FormatPercent
	return q
}

// short writes a number with three digits, and one above 1,000 without decimals.
func short(x float64) string {
	if a := math.Abs(x); a >= 1000 && a < 1e15 {
		return units.FormatCount(int64(math.Round(x)))
	} else if a >= 1 && a < 1000 {
		return strconv.FormatFloat(x, 'f', max(0, 2-int(math.Log10(a))), 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// ofKey returns how the number of a key in result.json is drawn.
func ofKey(key string) quantity {
	label := strings.ReplaceAll(strings.TrimPrefix(key, "ranks."), "_", " ")
	switch {
	case strings.HasSuffix(key, "_per_s"):
		label = strings.TrimSuffix(label[strings.LastIndex(label, ".")+1:], " per s") + " per second"
		return numbers(label, "", 1)
	case strings.HasSuffix(key, "_s"):
		return seconds(strings.TrimSuffix(label, " s"))
	case strings.HasSuffix(key, "_bytes"):
		return bytes(strings.TrimSuffix(label, " bytes"))
	}
	if of, ok := strings.CutPrefix(key, "bubble."); ok {
		return shares("bubble", "% of "+of)
	}
	return numbers(label, "", 1)
}

// lessIsBetter reports whether smaller values of a number are better, as for time, memory
// and bubbles.
func lessIsBetter(key string) bool {
	if strings.HasSuffix(key, "_per_s") {
		return false
	}
	return strings.HasSuffix(key, "_s") || strings.HasSuffix(key, "_bytes") || strings.HasPrefix(key, "bubble.")
}
