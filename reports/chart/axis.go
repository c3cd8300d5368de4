package chart

import (
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
)

// A unit is one that an axis can be labelled in.
type unit struct {
	name string
	size float64
	from float64 // the shortest axis that it serves
}

// Time makes an axis of times from 0 to max, in ns, µs, ms, s, minutes or hours.
func Time(a *plot.Axis, label string, max time.Duration, intervals int) {
	TimeFrom(a, label, 0, max, intervals)
}

// TimeFrom makes one that begins later.
func TimeFrom(a *plot.Axis, label string, low, max time.Duration, intervals int) {
	set(a, label, float64(low), float64(max), intervals, []unit{
		{"ns", 1, 0}, {"µs", 1e3, 1e3}, {"ms", 1e6, 1e6}, {"s", 1e9, 1e9},
		{"min", 60e9, 600e9}, {"h", 3600e9, 36000e9},
	})
}

// Bytes makes an axis of memory from 0 to max, in decimal units of bytes.
func Bytes(a *plot.Axis, label string, max int64, intervals int) {
	BytesFrom(a, label, 0, max, intervals)
}

// BytesFrom makes one that begins at more.
func BytesFrom(a *plot.Axis, label string, low, max int64, intervals int) {
	set(a, label, float64(low), float64(max), intervals, []unit{
		{"B", 1, 0}, {"kB", 1e3, 1e3}, {"MB", 1e6, 1e6}, {"GB", 1e9, 1e9},
		{"TB", 1e12, 1e12}, {"PB", 1e15, 1e15}, {"EB", 1e18, 1e18},
	})
}

// Numbers makes an axis from 0 to max in a unit of some size; its name may be
// empty.
func Numbers(a *plot.Axis, label, name string, size, max float64, intervals int) {
	set(a, label, 0, max, intervals, []unit{{name, size, 0}})
}

// set chooses the last unit that serves max, and the finest round step of it
// that makes at most so many intervals.
func set(a *plot.Axis, label string, low, max float64, intervals int, list []unit) {
	u := list[0]
	for _, candidate := range list {
		if max >= candidate.from {
			u = candidate
		}
	}
	var step float64 // from tick to tick
	rough := (max - low) / u.size / float64(intervals)
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, digit := range []float64{1, 2, 5, 10} {
		if digit*power >= rough*(1-1e-9) {
			step = digit * power * u.size
			break
		}
	}
	if u.name != "" {
		label += " (" + u.name + ")"
	}
	a.Min, a.Max, a.Label.Text, a.Tick.Marker = low, max, label, plot.TickerFunc(func(_, max float64) []plot.Tick { return u.ticks(step, max) })
}

// ticks lists the multiples of a step, all with as many decimals as it needs, or with
// an exponent where those are many.
func (u unit) ticks(step, max float64) []plot.Tick {
	const most = 6
	verb, digits := byte('f'), int(math.Max(0, -math.Floor(math.Log10(step/u.size)+1e-9)))
	if digits > most {
		verb, digits = 'g', most
	}
	var ticks []plot.Tick
	for i := 0; step > 0 && float64(i)*step <= max*(1+1e-9); i++ {
		value := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: value, Label: strconv.FormatFloat(value/u.size, verb, digits, 64)})
	}
	return ticks
}

// Logarithmic makes an axis between two numbers above zero, and marks 1, 2 and
// 5 of every decade, or 1 alone where there are many.
func Logarithmic(a *plot.Axis, label string, low, high float64) {
	digits := []float64{1, 2, 5}
	if math.Log10(high/low) >= 4 {
		digits = digits[:1]
	}
	var ticks plot.ConstantTicks
	for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
		for _, digit := range digits {
			if v := digit * math.Pow(10, power); v >= low && v <= high {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)})
			}
		}
	}
	a.Min, a.Max, a.Label.Text, a.Tick.Marker, a.Scale = low, high, label, ticks, plot.LogScale{}
}
