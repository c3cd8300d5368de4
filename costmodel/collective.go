package costmodel

import (
	"math"
	"time"

	"psim/schedules"
)

// Transfer is how long a link is busy with a message.
func (l Link) Transfer(bytes int64) time.Duration {
	return seconds(float64(bytes) / float64(l.Bandwidth))
}

// CollectiveTime is the closed form of a ring over n ranks with a tensor of S
// bytes: n − 1 steps of S/n bytes for a reduce-scatter or an all-gather, twice
// that for an all-reduce (Patarasuk & Yuan 2009). Alone, a rank takes nothing.
// On equal links, with a length that n divides, it is what simulating
// schedules.Ring gives.
func CollectiveTime(k schedules.Kind, l Link, n int, bytes int64) time.Duration {
	if n < 2 {
		return 0
	}
	steps := n - 1
	if k == schedules.AllReduce {
		steps *= 2
	}
	step := total(seconds(float64(bytes)/float64(n)/l.ring()), time.Duration(l.Latency))
	if step > maxTime/time.Duration(steps) {
		return maxTime
	}
	return total(time.Duration(l.Call), time.Duration(steps)*step)
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
