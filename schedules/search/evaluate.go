package search

// A score says how good an order is: the shorter span first, then the shorter
// makespan. sumOfSpans is the sum over all ranks, which shows progress while the longest
// span does not change.
type score struct{ span, makespan, sumOfSpans int64 }

// betterThan compares what a search is to minimise.
func (s score) betterThan(t score) bool {
	if s.span != t.span {
		return s.span < t.span
	}
	return s.makespan < t.makespan
}

// closerThan compares in a way that also sees progress towards a better score.
func (s score) closerThan(t score) bool {
	if s.span != t.span {
		return s.span < t.span
	}
	if s.sumOfSpans != t.sumOfSpans {
		return s.sumOfSpans < t.sumOfSpans
	}
	return s.makespan < t.makespan
}

// impossible scores an order that deadlocks.
var impossible = score{1 << 62, 1 << 62, 1 << 62}

// An evaluator runs orders: every pass starts when the one before it on its rank
// has ended and its input has arrived. It computes the same times as package sim, but
// without a graph.
type evaluator struct {
	*problem
	arrivesF, arrivesI []int64 // when the input of F and of I arrives, or notYet
	at                 [][]int64
	ranks              []progress
	busy               []int64 // by rank: the total time of its passes
	stack              []int   // ranks that may go on
	ran                int     // passes in all runs
}

// progress holds the progress of a rank.
type progress struct {
	position int
	next     [operations]int // by operation: index of the next microbatch of each stage
	free     int64
	idle     int64 // since its first pass started
	slack    int64 // the idle time beyond which the run is given up
	waiting  bool  // on the stack, or being advanced
}

const notYet = -1

func newEvaluator(q *problem) *evaluator {
	e := &evaluator{
		problem: q, arrivesF: make([]int64, q.stages()*q.m), arrivesI: make([]int64, q.stages()*q.m),
		at: make([][]int64, q.p), ranks: make([]progress, q.p), busy: q.busy(), stack: make([]int, 0, q.p),
	}
	starts := make([]int64, 3*q.stages()*q.m)
	for r := range e.at {
		e.at[r], starts = starts[:3*q.lanes*q.m], starts[3*q.lanes*q.m:]
	}
	return e
}

// run computes the start of every pass, in e.at, and the score.
func (e *evaluator) run(seqs sequences) score { return e.runWithin(seqs, impossible.span) }

// runWithin does what run does, but stops once a span must become longer than most, and then returns
// the score of an impossible order.
func (e *evaluator) runWithin(seqs sequences, most int64) score {
	for i := range e.arrivesF {
		e.arrivesF[i], e.arrivesI[i] = notYet, notYet
	}
	for i := range e.m {
		e.arrivesF[i] = 0
	}
	e.stack = e.stack[:0]
	for r := e.p - 1; r >= 0; r-- {
		x := &e.ranks[r]
		*x = progress{slack: most - e.busy[r], waiting: true}
		if x.slack < 0 {
			return impossible
		}
		for lane := range e.lanes {
			first := e.slot(r, lane).first
			x.next[3*lane], x.next[3*lane+1], x.next[3*lane+2] = first, first, first
		}
		e.stack = append(e.stack, r)
	}
	for len(e.stack) > 0 {
		r := e.stack[len(e.stack)-1]
		e.stack = e.stack[:len(e.stack)-1]
		if !e.advance(r, seqs[r]) {
			return impossible
		}
		e.ranks[r].waiting = false
	}
	s := score{}
	for r := range seqs {
		x := &e.ranks[r]
		if x.position < len(seqs[r]) {
			return impossible
		}
		span := x.free - e.at[r][0]
		s.span, s.makespan, s.sumOfSpans = max(s.span, span), max(s.makespan, x.free), s.sumOfSpans+span
	}
	return s
}

// advance runs a rank until it has to wait for another rank. It returns false if the run
// should be given up.
func (e *evaluator) advance(r int, seq sequence) bool {
	x, at := &e.ranks[r], e.at[r][:len(seq)]
	free, from := x.free, x.position
	position := from
	for ; position < len(seq); position++ {
		o := seq[position]
		i, k := x.next[o], o.kind()
		start := free
		switch k {
		case opF:
			start = e.arrivesF[i]
		case opI:
			start = e.arrivesI[i]
		}
		if start == notYet {
			break
		}
		if start <= free {
			start = free
		} else if position > 0 {
			if x.idle += start - free; x.idle > x.slack {
				e.ran += position - from
				return false
			}
		}
		at[position] = start
		free = start + e.time[k][i]
		x.next[o]++
		if k != opW {
			e.deliver(e.slot(r, o.lane()), k, i, free)
		}
	}
	e.ran += position - from
	x.position, x.free = position, free
	return true
}

// deliver passes the result of an F or I to the rank that needs it.
func (e *evaluator) deliver(own *slot, k op, i int, end int64) {
	switch {
	case k == opF && own.after < 0:
		e.arrivesI[i] = end
	case k == opF:
		e.arrivesF[i+e.m] = end + own.toAfter
		e.wake(own.after)
	case own.before >= 0:
		e.arrivesI[i-e.m] = end + own.toBefore
		e.wake(own.before)
	}
}

func (e *evaluator) wake(r int) {
	if x := &e.ranks[r]; !x.waiting {
		x.waiting = true
		e.stack = append(e.stack, r)
	}
}
