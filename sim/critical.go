package sim

import (
	"slices"

	"psim/schedules/graph"
)

// CriticalPath lists the tasks that determine when the step ends, from the
// first to the last: each started when the one before it ended (or its delay
// had passed), or when a host thread that launched the one before had launched it. Among tasks that end last it takes the first of the graph.
func CriticalPath(t *graph.Trace) []int32 {
	last, end := none, t.End()
	for i := range t.Spans {
		if t.Spans[i].End == end {
			last = int32(i)
			break
		}
	}
	var path []int32
	for i := last; i != none; i = t.Cause[i] {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}
