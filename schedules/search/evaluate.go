package search

// A score says how good an order is: the shorter span first, then the shorter
// makespan. Spans is the sum over the ranks, which tells progress where the
// longest span stays.
type score struct{ span, makespan, spans int64 }

// better orders by what is asked for.
func (s score) better(t score) bool {
	if s.span != t.span {
		return s.span < t.span
	}
	return s.makespan < t.makespan
}

// closer orders by what leads there.
func (s score) closer(t score) bool {
	if s.span != t.span {
		return s.span < t.span
	}
	if s.spans != t.spans {
		return s.spans < t.spans
	}
	return s.makespan < t.makespan
}

// impossible scores an order that deadlocks.
var impossible = score{1 << 62, 1 << 62, 1 << 62}

// An evaluator runs orders: every pass starts when the one before it on its rank
// has ended and what it needs has arrived. It computes what sim would, without a
// graph.
type evaluator struct {
	*problem
	arrivesF, arrivesI []int64 // when the input of F and I is there; −1 is not yet
	at                 [][]int64
	ranks              []progress
	busy               []int64 // by rank: what its passes take
	stack              []int   // of ranks that may get on
	ran                int     // passes, by all runs
}

// progress says how far a rank has come.
type progress struct {
	position int
	next     [operations]int // by operation: which microbatch of which stage
	free     int64
	idle     int64 // since its first pass started
	slack    int64 // idle time after which the run is of no use
	waiting  bool  // on the stack, or getting on
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

// run computes when everything starts, into at, and the score.
func (e *evaluator) run(seqs sequences) score { return e.runWithin(seqs, impossible.span) }

// runWithin runs until a span is sure to become longer than most; such an order
// counts as impossible.
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
		s.span, s.makespan, s.spans = max(s.span, span), max(s.makespan, x.free), s.spans+span
	}
	return s
}

// advance runs a rank until it has to wait for another, and reports whether the
// run is still of use.
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

// deliver hands the result of an F or I to the rank that needs it.
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
