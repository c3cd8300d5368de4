package graph

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// rankStreams lists the streams of every rank, and the tasks on each.
type rankStreams struct {
	trace       *Trace
	of          [][]int32 // by rank
	start, list []int32   // see ByStream
	heads       []int32   // of the streams of the rank at hand
}

func newRankStreams(t *Trace) *rankStreams {
	s := &rankStreams{trace: t, of: make([][]int32, t.Graph.Ranks())}
	s.start, s.list = t.Graph.ByStream()
	for i, stream := range t.Graph.Streams {
		s.of[stream.Rank] = append(s.of[stream.Rank], int32(i))
	}
	return s
}

// summarize fills in the times of a rank, and returns the span of its compute. What
// was simulated is in order on every stream, so that merging them is enough; what was
// measured or waited for a host is sorted.
func (s *rankStreams) summarize(rank *RankSummary, step time.Duration) time.Duration {
	if s.trace.Ready == nil {
		if u, inOrder := s.merge(rank.Rank); inOrder {
			u.fill(rank, step)
			return u.span()
		}
	}
	spans := s.collect(rank.Rank)
	return spans.summarize(rank, step)
}

// merge goes through the spans of a rank in the order of their starts. It returns
// false where a stream is not in order.
func (s *rankStreams) merge(rank int) (u use, inOrder bool) {
	streams := s.of[rank]
	s.heads = s.heads[:0]
	for _, stream := range streams {
		s.heads = append(s.heads, s.start[stream])
	}
	for before := time.Duration(0); ; {
		earliest, at := -1, time.Duration(math.MaxInt64)
		for k, stream := range streams {
			if h := s.heads[k]; h < s.start[stream+1] {
				if begin := s.trace.Spans[s.list[h]].Start; begin < at {
					earliest, at = k, begin
				}
			}
		}
		switch {
		case earliest < 0:
			return u, true
		case at < before:
			return u, false
		}
		before = at
		i := s.list[s.heads[earliest]]
		s.heads[earliest]++
		u.add(s.trace.Graph.Tasks[i].Kind, s.trace.Spans[i])
	}
}

// collect sorts the spans of a rank by what they count as.
func (s *rankStreams) collect(rank int) (spans rankSpans) {
	t := s.trace
	for _, stream := range s.of[rank] {
		works, tasks := false, s.list[s.start[stream]:s.start[stream+1]]
		for _, i := range tasks {
			k := t.Graph.Tasks[i].Kind
			works = works || k.Compute() || k == Optimizer
			spans.add(k, t.Spans[i])
		}
		for _, i := range tasks {
			if t.Ready != nil && works && t.Ready[i] < t.Spans[i].Start {
				spans.starting = append(spans.starting, Span{t.Ready[i], t.Spans[i].Start})
			}
		}
	}
	return spans
}

// A use adds up what the time of a rank goes into, from spans in the order of their
// starts.
type use struct {
	compute, working, communication, busy cover
	launching                             cover // busy, or ready and launched
	computes                              bool
	first, last                           time.Duration // of compute
}

// A cover is how much time spans cover that come in the order of their starts.
type cover struct{ total, until time.Duration }

func (c *cover) add(s Span) {
	if from := max(s.Start, c.until); s.End > from {
		c.total += s.End - from
		c.until = s.End
	}
}

// add counts a task of a kind.
func (u *use) add(k Kind, s Span) {
	switch {
	case k.Compute():
		if !u.computes {
			u.computes, u.first = true, s.Start
		}
		u.last = max(u.last, s.End)
		u.compute.add(s)
		u.working.add(s)
	case k == Optimizer:
		u.working.add(s)
	case k.Communication():
		u.communication.add(s)
	default:
		return
	}
	u.busy.add(s)
	u.launching.add(s)
}

// fill puts the sums into a rank's summary, for a step that took so long.
func (u *use) fill(rank *RankSummary, step time.Duration) {
	rank.Compute, rank.Communication = u.compute.total, u.communication.total
	rank.Optimizer = u.working.total - u.compute.total
	rank.ExposedCommunication = u.busy.total - u.working.total
	rank.Idle = step - u.busy.total
	rank.Dispatch = u.launching.total - u.busy.total
	rank.Waiting = rank.Idle - rank.Dispatch
}

// span returns the time from the first start to the last end of compute.
func (u *use) span() time.Duration { return u.last - u.first }

// rankSpans collects the spans of one rank by what they count as.
type rankSpans struct {
	compute, optimizer, communication []Span
	starting                          []Span // ready, and not running yet
}

func (r *rankSpans) add(k Kind, s Span) {
	switch {
	case k.Compute():
		r.compute = append(r.compute, s)
	case k == Optimizer:
		r.optimizer = append(r.optimizer, s)
	case k.Communication():
		r.communication = append(r.communication, s)
	}
}

// summarize fills in the times of a rank, and returns the span of its compute.
func (r *rankSpans) summarize(rank *RankSummary, step time.Duration) time.Duration {
	compute, optimizer := union(r.compute), union(r.optimizer)
	communication := union(r.communication)
	working := union(append(slices.Clone(compute), optimizer...))
	rank.Compute = total(compute)
	rank.Optimizer = total(working) - rank.Compute
	rank.Communication = total(communication)
	busy := union(append(working, communication...))
	rank.ExposedCommunication = total(busy) - rank.Compute - rank.Optimizer
	rank.Idle = step - total(busy)
	rank.Dispatch = total(union(append(slices.Clone(busy), r.starting...))) - total(busy)
	rank.Waiting = rank.Idle - rank.Dispatch
	if len(compute) == 0 {
		return 0
	}
	return compute[len(compute)-1].End - compute[0].Start
}

// union merges spans into disjoint ones, in order of time.
func union(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	var merged []Span
	for _, s := range spans {
		if n := len(merged); n > 0 && s.Start <= merged[n-1].End {
			merged[n-1].End = max(merged[n-1].End, s.End)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

func total(spans []Span) time.Duration {
	var sum time.Duration
	for _, s := range spans {
		sum += s.Duration()
	}
	return sum
}
