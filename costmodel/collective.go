package costmodel

import (
	"math"
	"time"
)

// Transfer is how long a link is busy with a message.
func (l Link) Transfer(bytes int64) time.Duration {
	return seconds(float64(bytes) / float64(l.Bandwidth))
}

// seconds rounds to whole nanoseconds. What does not fit counts as the
// longest duration.
func seconds(s float64) time.Duration {
	if ns := math.Round(s * 1e9); ns < maxTime {
		return time.Duration(ns)
	}
	return maxTime
}

// total adds durations, up to the longest.
func total(times ...time.Duration) time.Duration {
	var sum time.Duration
	for _, t := range times {
		sum = min(sum+min(t, maxTime), maxTime)
	}
	return sum
}

// maxTime is the longest duration of a task, a little over three years. A
// price beyond it counts as that, so that none overflows.
const maxTime = 1e17
