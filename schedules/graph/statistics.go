package graph

import (
	"slices"
	"time"
)

// Statistics summarize traces, one after another, and reuse their memory. The zero value is ready
// for use.
type Statistics struct {
	// Peaks asks for the data that AtPeak needs.
	Peaks bool

	trace   *Trace
	streams rankStreams
	counts  []int32         // of tasks, by class
	exposed []time.Duration // by rank: communication inside tasks during which they compute nothing
	heads   []head
	front   front
	peaks   []peak // by rank
	changes changes
}

// rankStreams lists the streams of every rank, and the streams whose messages take memory on it.
type rankStreams struct {
	own, incoming [][]int32
	works         []work // by stream
}

// work says what the tasks of a stream do.
type work uint8

const (
	takesTime work = 1 << iota
	takesMemory
	waitsForHost // computes or updates
)

// reset fills the lists for a trace whose tasks run on a number of ranks.
func (s *rankStreams) reset(t *Trace, ranks int) {
	s.own, s.incoming = emptied(s.own, ranks), emptied(s.incoming, ranks)
	for i, stream := range t.Graph.Streams {
		if r := int(stream.Rank); r < ranks {
			s.own[r] = append(s.own[r], int32(i))
		}
	}
	s.works = zeros(s.works, len(t.Graph.Streams))
	for i := range t.Graph.Classes {
		task := &t.Graph.Classes[i]
		work := &s.works[task.Stream]
		if task.Kind.Compute() || task.Kind.Update() {
			*work |= waitsForHost
		}
		if t.Prices == nil {
			continue
		}
		p := &t.Prices[i]
		if p.Busy > 0 || p.Kind.Compute() {
			*work |= takesTime
		}
		if p.AtEnd != 0 || p.AtStart != 0 && !p.Kind.Message() {
			*work |= takesMemory
		}
		if p.AtStart == 0 || !p.Kind.Message() {
			continue
		}
		if to := &s.incoming[task.Peer]; !slices.Contains(*to, task.Stream) {
			*to = append(*to, task.Stream)
		}
	}
}

// emptied returns n empty lists that reuse the memory of the given ones.
func emptied(lists [][]int32, n int) [][]int32 {
	for len(lists) < n {
		lists = append(lists, nil)
	}
	lists = lists[:n]
	for i := range lists {
		lists[i] = lists[i][:0]
	}
	return lists
}

// zeros returns n zeros, in the memory of s if that is large enough.
func zeros[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// Summarize computes the metrics of a trace.
func (x *Statistics) Summarize(t *Trace, s *Summary) {
	ranks := x.begin(t, s)
	x.count(s)
	var busy time.Duration
	for r := range ranks {
		rank := &s.Ranks[r]
		u := x.merge(r)
		s.Makespan = max(s.Makespan, u.makespan)
		s.LongestSpan = max(s.LongestSpan, u.span())
		inner := rank.Communication
		u.fill(rank, s.StepTime)
		busy += rank.Compute
		rank.Communication += inner
		part := min(x.exposed[r], rank.Compute) // less where tasks ran at the same time
		rank.Compute -= part
		rank.ExposedCommunication += part
		x.memory(r, rank)
	}
	s.copy(ranks)
	busy *= time.Duration(t.Graph.Replicas())
	s.Bubble = Bubble{idleShare(busy, s.Makespan, len(s.Ranks)), idleShare(busy, s.LongestSpan, len(s.Ranks))}
	s.SteadyMicrobatch, s.Startup = t.steadyMicrobatch(), t.Startup()
}

// Extremes computes only the step time and the peak memory of every rank.
func (x *Statistics) Extremes(t *Trace, s *Summary) {
	ranks := x.begin(t, s)
	for r := range ranks {
		x.memory(r, &s.Ranks[r])
	}
	s.copy(ranks)
}

// begin resets the summary and the statistics for a trace, and returns how many ranks have tasks
// in it.
func (x *Statistics) begin(t *Trace, s *Summary) (ranks int) {
	all := t.Graph.Ranks()
	ranks = all / t.Graph.Replicas()
	*s = Summary{Ranks: append(s.Ranks[:0], make([]RankSummary, all)...), StepTime: t.End()}
	for r := range ranks {
		s.Ranks[r].Rank = r
	}
	x.trace, x.peaks = t, x.peaks[:0]
	x.streams.reset(t, ranks)
	return ranks
}

// count computes the metrics that do not depend on times: activations in flight, bytes sent, and
// the sums over all tasks of a class. A rank computes one task at a time, so the order of its
// tasks determines how many activations it holds.
func (x *Statistics) count(s *Summary) {
	t := x.trace
	g := t.Graph
	change, held := g.activations(), make([]int32, len(s.Ranks))
	x.counts, x.exposed = zeros(x.counts, len(g.Classes)), zeros(x.exposed, len(s.Ranks))
	for _, row := range g.Rows {
		x.counts[row.Class]++
		if n := change[row.Class]; n != 0 {
			rank := g.Classes[row.Class].Rank
			held[rank] += int32(n)
			s.Ranks[rank].PeakInFlight = max(s.Ranks[rank].PeakInFlight, int(held[rank]))
		}
	}
	for i, count := range x.counts {
		task, n := &g.Classes[i], int64(count)
		rank := &s.Ranks[task.Rank]
		rank.SentBytes += n * g.SentBytes(task)
		if task.Kind.Message() {
			s.Messages += int(count) * g.Replicas()
		}
		if t.Prices != nil && t.Prices[i].Inner != nil {
			inner := t.Prices[i].Inner
			rank.SentBytes += n * inner.SentBytes
			rank.Communication += time.Duration(n) * inner.Communication
			x.exposed[task.Rank] += time.Duration(n) * inner.Exposed
		}
	}
}

// copy fills in the ranks of the replicas that the first one stands for.
func (s *Summary) copy(ranks int) {
	for r := ranks; r < len(s.Ranks); r++ {
		s.Ranks[r] = s.Ranks[r%ranks]
		s.Ranks[r].Rank = r
	}
}

// A head is the next task of a stream, while the streams of a rank are merged.
type head struct {
	at    time.Duration // start of the task, or when it was ready
	task  int32
	price *Price
	// launches means that the head yields the times from when tasks are ready to their starts.
	launches bool
	before   int32 // the task before, where launches is set
}

// merge adds up how a rank spends its time, by going through its tasks in the order of their
// starts.
func (x *Statistics) merge(r int) (u use) {
	t := x.trace
	if t.Spans != nil {
		return x.measured(r)
	}
	live := x.heads[:0]
	for _, s := range x.streams.own[r] {
		first := t.Graph.First(s)
		if first == None {
			continue
		}
		u.makespan = max(u.makespan, t.makespan(s))
		if x.streams.works[s]&takesTime != 0 {
			live = append(live, head{})
			t.set(&live[len(live)-1], first)
		}
		if t.Host != nil && x.streams.works[s]&waitsForHost != 0 {
			live = append(live, head{launches: true, before: None})
			t.set(&live[len(live)-1], first)
		}
	}
	x.heads = live
	for len(live) > 0 {
		h := &live[0]
		for j := 1; j < len(live); j++ {
			if live[j].at < h.at {
				h = &live[j]
			}
		}
		if h.launches {
			u.launching.add(Span{h.at, t.start(h.task, h.price)})
		} else {
			u.add(h.price.Kind, Span{h.at, t.Released[h.task] - h.price.Delay()})
		}
		if h.before = h.task; !t.set(h, t.Graph.Next(h.task)) {
			*h = live[len(live)-1]
			live = live[:len(live)-1]
		}
	}
	return u
}

// set moves a head to a task of its stream. It returns false for None, at the end of the stream.
func (t *Trace) set(h *head, task int32) bool {
	if task == None {
		return false
	}
	h.task, h.price = task, &t.Prices[t.Graph.Rows[task].Class]
	if h.at = t.start(task, h.price); h.launches && h.price.Launched() {
		h.at, _ = t.due(task, h.before)
	}
	return true
}

// makespan returns the end of the last task of a stream that is not part of the update.
func (t *Trace) makespan(s int32) time.Duration {
	for i := t.Graph.Last(s); i != None; i = t.Graph.Before(i) {
		if !t.Prices[t.Graph.Rows[i].Class].Update {
			return t.Span(i).End
		}
	}
	return 0
}
