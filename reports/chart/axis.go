package chart

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gonum.org/v1/plot"
)

// A Scale is the range of an axis and its label.
type Scale struct {
	Label     string
	Low, High float64
	Intervals int     // the largest number of intervals between ticks
	Unit      string  // of Numbers; may be empty
	UnitSize  float64 // of Numbers; 0 is 1
}

// A unit is a unit that an axis can be labelled in.
type unit struct {
	name string
	size float64
	from float64 // the lowest upper end of an axis for which the unit is used
}

// Time makes an axis of times from 0 to max, in ns, µs, ms, s, minutes or hours.
func Time(a *plot.Axis, label string, max time.Duration, intervals int) {
	Times(a, Scale{Label: label, High: float64(max), Intervals: intervals})
}

// Times makes an axis of times like Time, on a scale in nanoseconds.
func Times(a *plot.Axis, s Scale) {
	s.set(a, []unit{
		{"ns", 1, 0}, {"µs", 1e3, 1e3}, {"ms", 1e6, 1e6}, {"s", 1e9, 1e9},
		{"min", 60e9, 600e9}, {"h", 3600e9, 36000e9},
	})
}

// Bytes makes an axis of memory on a scale in bytes. It is labelled in decimal units.
func Bytes(a *plot.Axis, s Scale) {
	s.set(a, []unit{
		{"B", 1, 0}, {"kB", 1e3, 1e3}, {"MB", 1e6, 1e6}, {"GB", 1e9, 1e9},
		{"TB", 1e12, 1e12}, {"PB", 1e15, 1e15}, {"EB", 1e18, 1e18},
	})
}

// Numbers makes an axis of numbers in the unit of a scale.
func Numbers(a *plot.Axis, s Scale) {
	size := s.UnitSize
	if size == 0 {
		size = 1
	}
	s.set(a, []unit{{s.Unit, size, 0}})
}

// set labels an axis in the last unit of a list that is used for its upper end, with ticks
// at the finest round step that makes at most Intervals intervals.
func (s Scale) set(a *plot.Axis, list []unit) {
	u := list[0]
	for _, candidate := range list {
		if s.High >= candidate.from {
			u = candidate
		}
	}
	var step float64 // from tick to tick
	rough := (s.High - s.Low) / u.size / float64(s.Intervals)
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, digit := range []float64{1, 2, 5, 10} {
		if digit*power >= rough*(1-1e-9) {
			step = digit * power * u.size
			break
		}
	}
	label := s.Label
	if u.name != "" {
		label += " (" + u.name + ")"
	}
	a.Min, a.Max, a.Label.Text = s.Low, s.High, label
	a.Tick.Marker = plot.TickerFunc(func(min, max float64) []plot.Tick { return u.ticks(step, min, max) })
}

// ticks lists the multiples of a step in a range, all with the number of decimals that the step needs,
// or with an exponent if that number is large.
func (u unit) ticks(step, min, max float64) []plot.Tick {
	const most = 6
	verb, digits := byte('f'), int(math.Max(0, -math.Floor(math.Log10(step/u.size)+1e-9)))
	if digits > most {
		verb, digits = 'g', most
	}
	var ticks []plot.Tick
	if step <= 0 {
		return nil
	}
	for i := math.Max(0, math.Ceil(min/step-1e-9)); i*step <= max*(1+1e-9); i++ {
		value := i * step
		label := strconv.FormatFloat(value/u.size, verb, digits, 64)
		ticks = append(ticks, plot.Tick{Value: value, Label: thousands(label)})
	}
	return ticks
}

// thousands puts commas between groups of three digits before the point: 12,345.6. A number with an
// exponent stays as it is.
func thousands(number string) string {
	if strings.Contains(number, "e") {
		return number
	}
	whole, rest, _ := strings.Cut(number, ".")
	for i := len(whole) - 3; i > 0 && unicode.IsDigit(rune(whole[i-1])); i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return whole
}

// Logarithmic makes an axis between two numbers above zero. It has ticks at 1, 2 and 5 of
// every decade, or at 1 only if there are many decades.
func Logarithmic(a *plot.Axis, label string, low, high float64) {
	digits := []float64{1, 2, 5}
	if math.Log10(high/low) >= 4 {
		digits = digits[:1]
	}
	var ticks plot.ConstantTicks
	for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
		for _, digit := range digits {
			if v := digit * math.Pow(10, power); v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: thousands(strconv.FormatFloat(v, 'g', 6, 64))})
			}
		}
	}
	a.Min, a.Max, a.Label.Text, a.Tick.Marker, a.Scale = low, high, label, ticks, plot.LogScale{}
}
