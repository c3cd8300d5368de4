package graph

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// SortMemory joins the memory events of a trace with more of them, given in pieces,
// and puts all in order: by time, ends of earlier tasks before starts, starts before
// ends of tasks that take no time. Events are spread evenly over a step, so they go into
// buckets by time, a few in each, and buckets are sorted.
func (t *Trace) SortMemory(pieces ...[]MemoryEvent) {
	t.Memory = sorted(t.Spans, append(pieces, t.Memory))
}

// sorted joins pieces and puts them in the order of [Trace.SortMemory].
func sorted(spans []Span, pieces [][]MemoryEvent) []MemoryEvent {
	n, first, last := 0, time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	for _, piece := range pieces {
		n += len(piece)
		for i := range piece {
			first, last = min(first, piece[i].At), max(last, piece[i].At)
		}
	}
	if n == 0 {
		return nil
	}
	buckets := n/4 + 1
	width := float64(buckets) / (float64(last) - float64(first) + 1)
	of := func(e *MemoryEvent) int { return min(buckets-1, int(float64(e.At-first)*width)) }
	end := make([]uint32, buckets+1)
	for _, piece := range pieces {
		for i := range piece {
			end[of(&piece[i])+1]++
		}
	}
	for b := range buckets {
		end[b+1] += end[b]
	}
	list := make([]MemoryEvent, n)
	for _, piece := range pieces {
		for i := range piece {
			b := of(&piece[i])
			list[end[b]] = piece[i]
			end[b]++
		}
	}
	begin := uint32(0)
	for _, e := range end[:buckets] {
		sortEvents(spans, list[begin:e])
		begin = e
	}
	return list
}

// sortEvents sorts a bucket, by insertion where it is as small as it should be.
func sortEvents(spans []Span, events []MemoryEvent) {
	const few = 32
	if len(events) > few {
		slices.SortStableFunc(events, func(a, b MemoryEvent) int { return compareEvents(spans, &a, &b) })
		return
	}
	for i := 1; i < len(events); i++ {
		for j := i; j > 0 && compareEvents(spans, &events[j], &events[j-1]) < 0; j-- {
			events[j], events[j-1] = events[j-1], events[j]
		}
	}
}

func compareEvents(spans []Span, a, b *MemoryEvent) int {
	if a.At != b.At {
		return cmp.Compare(a.At, b.At)
	}
	return cmp.Or(phase(spans, a)-phase(spans, b), cmp.Compare(a.Task, b.Task))
}

// phase returns 0 for the end of a task that takes time, and 1 for the rest.
func phase(spans []Span, e *MemoryEvent) int {
	if span := &spans[e.Task]; span.Start != span.End && e.At == span.End {
		return 0
	}
	return 1
}
