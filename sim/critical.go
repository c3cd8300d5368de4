package sim

import (
	"slices"

	"psim/schedules/graph"
)

// CriticalPath lists the tasks that determine when the step ends, from the
// first to the last. Each started when the one before it ended (or its delay had
// passed), or when the host thread that had launched the one before had launched it.
// If several tasks end last, the path ends with the first of the graph.
func CriticalPath(t *graph.Trace) []int32 {
	var path []int32
	for i := last(t); i != none; i = t.CauseOf(i) {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}

// last returns the task that ends last, the first in the graph if there are several.
func last(t *graph.Trace) int32 {
	end, first := t.End(), none
	for s := range t.Graph.Streams {
		for i := t.Graph.Last(int32(s)); i != none && t.Span(i).End == end; i = t.Graph.Before(i) {
			if first == none || i < first {
				first = i
			}
		}
	}
	return first
}
