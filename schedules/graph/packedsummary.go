package graph

import (
	"slices"
	"time"
)

// Statistics sum up packed graphs that have been simulated, one after another, in memory
// that they keep. The zero value is ready.
type Statistics struct {
	// Peaks asks for what AtPeak needs.
	Peaks   bool
	packed  *Packed
	cursors []cursor
	// incoming lists, by rank, the streams whose messages take memory there.
	incoming [][]int32
	exposed  []time.Duration
	peaks    []peak    // by rank
	changes  []changes // by class: all 0 between uses
	changed  []int32   // the classes that are not
}

// Summarize computes what [Summarize] does of a trace.
func (x *Statistics) Summarize(p *Packed, s *Summary) {
	ranks := x.begins(p, s)
	var busy time.Duration
	for r := range ranks {
		rank := &s.Ranks[r]
		rank.Rank = r
		inner := rank.Communication
		u := x.merge(int32(r))
		u.fill(rank, s.StepTime)
		s.LongestSpan = max(s.LongestSpan, u.span())
		busy += rank.Compute
		rank.Communication += inner
		part := min(x.exposed[r], rank.Compute)
		rank.Compute -= part
		rank.ExposedCommunication += part
		x.memory(int32(r), rank)
		rank.PeakInFlight = x.inFlight(int32(r))
	}
	s.copy(ranks)
	busy *= time.Duration(p.Copies)
	s.Bubble = Bubble{idleShare(busy, s.Makespan, len(s.Ranks)), idleShare(busy, s.LongestSpan, len(s.Ranks))}
}

// Extremes computes of what Summarize does how long the step and its passes take, and the
// memory of every rank at its highest.
func (x *Statistics) Extremes(p *Packed, s *Summary) {
	ranks := x.begins(p, s)
	for r := range ranks {
		s.Ranks[r].Rank = r
		x.memory(int32(r), &s.Ranks[r])
	}
	s.copy(ranks)
}

// begins begins a summary with what follows from classes and from ends, and counts the ranks
// that have tasks.
func (x *Statistics) begins(p *Packed, s *Summary) int {
	ranks := p.Graph.Shape.Ranks * max(1, p.Graph.Shape.Replicas) / p.Copies
	x.packed, x.peaks = p, x.peaks[:0]
	*s = Summary{Ranks: append(s.Ranks[:0], make([]RankSummary, ranks*p.Copies)...)}
	x.classes(s)
	for r := range ranks {
		x.ends(int32(r), s)
	}
	return ranks
}

// classes adds up what follows from how many tasks there are of every class.
func (x *Statistics) classes(s *Summary) {
	p := x.packed
	ranks := len(p.First) - 1
	x.exposed = append(x.exposed[:0], make([]time.Duration, ranks)...)
	for len(x.incoming) < ranks {
		x.incoming = append(x.incoming, nil)
	}
	for r := range x.incoming {
		x.incoming[r] = x.incoming[r][:0]
	}
	for i := range p.Classes {
		t, n := &p.Graph.Tasks[i], int64(p.Counts[i])
		rank := &s.Ranks[t.Rank]
		rank.SentBytes += n * p.Graph.SentBytes(t)
		if t.Kind.Message() {
			s.Messages += int(n) * p.Copies
			if to := x.incoming[t.Peer]; p.Classes[i].AtStart != 0 && !slices.Contains(to, t.Stream) {
				x.incoming[t.Peer] = append(to, t.Stream)
			}
		}
		if inner := p.Costs[i].Inner; inner != nil {
			rank.SentBytes += n * inner.SentBytes
			rank.Communication += time.Duration(n) * inner.Communication
			x.exposed[t.Rank] += time.Duration(n) * inner.Exposed
		}
	}
}

// ends finds when the tasks of a rank end, with and without what updates parameters.
func (x *Statistics) ends(r int32, s *Summary) {
	p := x.packed
	for stream := p.First[r]; stream < p.First[r+1]; stream++ {
		for i := p.Begin[stream+1] - 1; i >= p.Begin[stream]; i-- {
			c := &p.Classes[p.Tasks[i].Class]
			end := p.Tasks[i].Start + c.Busy
			s.StepTime = max(s.StepTime, end)
			if !c.Update {
				s.Makespan = max(s.Makespan, end)
				break
			}
		}
	}
}

// merge goes through the tasks of a rank in the order of their starts.
func (x *Statistics) merge(r int32) (u use) {
	p := x.packed
	live := x.cursors[:0]
	for s := p.First[r]; s < p.First[r+1]; s++ {
		if b := p.Begin[s]; b < p.Begin[s+1] {
			live = append(live, cursor{at: p.Tasks[b].Start, i: b, end: p.Begin[s+1]})
		}
	}
	compute := p.First[r]
	if b := p.Begin[compute]; p.Host != nil && b < p.Begin[compute+1] {
		live = append(live, cursor{at: p.Ready(b), i: b, end: p.Begin[compute+1], launches: true})
	}
	x.cursors = live
	for len(live) > 0 {
		k := 0
		for j := 1; j < len(live); j++ {
			if live[j].at < live[k].at {
				k = j
			}
		}
		c := &live[k]
		if t := &p.Tasks[c.i]; c.launches {
			u.launching.add(Span{c.at, t.Start})
		} else {
			class := &p.Classes[t.Class]
			u.add(class.Kind, Span{c.at, c.at + class.Busy})
		}
		if c.i++; c.i < c.end {
			if c.at = p.Tasks[c.i].Start; c.launches {
				c.at = p.Ready(c.i)
			}
		} else {
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
		}
	}
	return u
}

// inFlight counts the activations that a rank holds at most, in the order of its stream.
func (x *Statistics) inFlight(r int32) int {
	p, held, peak := x.packed, 0, 0
	compute := p.First[r]
	for i := p.Begin[compute]; i < p.Begin[compute+1]; i++ {
		switch c := &p.Classes[p.Tasks[i].Class]; {
		case c.Part:
		case c.Kind == Forward:
			held++
			peak = max(peak, held)
		case c.Kind == Backward || c.Kind == WeightGradient:
			held--
		}
	}
	return peak
}
