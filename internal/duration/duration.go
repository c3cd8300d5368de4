// Package duration calculates with times that never overflow: what would be
// longer than [Longest] counts as that.
package duration

import (
	"math"
	"time"
)

// Longest is the longest time of a task, a little over three years.
const Longest time.Duration = 1e17

// Seconds rounds to whole nanoseconds.
func Seconds(s float64) time.Duration { return Nanoseconds(s * 1e9) }

// Nanoseconds rounds to whole nanoseconds.
func Nanoseconds(ns float64) time.Duration {
	if ns = math.Round(ns); ns < float64(Longest) {
		return time.Duration(ns)
	}
	return Longest
}

// Sum adds times.
func Sum(times ...time.Duration) time.Duration {
	var sum time.Duration
	for _, t := range times {
		sum = min(sum+min(t, Longest), Longest)
	}
	return sum
}

// Repeat is the time of a number of equal steps.
func Repeat(steps int, step time.Duration) time.Duration {
	if steps > 0 && step > Longest/time.Duration(steps) {
		return Longest
	}
	return time.Duration(steps) * step
}
