package search

import "math"

// forever comes after every time.
const forever = int64(math.MaxInt64)

// A builder makes an order by following the clock: whenever a rank is free, the
// policy says what it runs next, or until when it waits. It serves one order after
// another.
type builder struct {
	*problem
	policy
	limit    []int64
	need     [3][]int64 // bytes for a pass, and for its microbatch to come to its end
	arrives  [2][]int64 // when the input of F and of I is there, or notYet
	seqs     sequences
	clock    *clock // when the ranks decide again
	ranks    []state
	busy     []int64 // by rank: what its passes take
	mostIdle int64
	useless  bool // some rank has been idle for too long
	placed   int  // passes, for this order
}

// state says how far a rank has been built.
type state struct {
	done   [operations]int
	next   [operations]int // which microbatch of which stage
	last   op              // F or I
	level  int64
	free   int64 // end of the last pass
	warmUp int   // forwards before the first input gradient
	idle   int64 // within the span so far
	slack  int64 // idle time after which the order is of no use
}

func newBuilder(q *problem) *builder {
	n := q.stages() * q.m
	b := &builder{problem: q, seqs: make(sequences, q.p), clock: newClock(q.p), ranks: make([]state, q.p), busy: q.busy()}
	for k := range b.arrives {
		b.arrives[k] = make([]int64, n)
	}
	for k := range b.need {
		b.need[k] = make([]int64, n)
	}
	for r := range q.p {
		b.seqs[r] = make(sequence, 0, 3*q.lanes*q.m)
		b.addNeeds(r)
	}
	return b
}

// addNeeds finds what memory passes need so that their microbatch can come to its
// end while all else on the rank stays as it is: what it goes through until W has
// given back. For a forward it is the most of any microbatch, since others may get
// ahead.
func (b *builder) addNeeds(r int) {
	var reserve int64 // that what follows on the rank may need on top
	for lane := range b.lanes {
		first := b.slot(r, lane).first
		for i := first; i < first+b.m; i++ {
			b.need[opW][i] = b.start[opW][i]
			b.need[opI][i] = max(b.start[opI][i], b.net(opI, i)+b.start[opW][i])
			reserve = max(reserve, b.need[opI][i])
		}
	}
	for lane := b.lanes - 1; lane >= 0; lane-- {
		first := b.slot(r, lane).first
		var most int64
		for i := first; i < first+b.m; i++ {
			b.need[opF][i] = max(b.start[opF][i], b.net(opF, i)+reserve)
			most = max(most, b.need[opF][i])
		}
		reserve = most
	}
}

// build makes an order under a limit, which holds until the next one is built. It
// returns nil where a span becomes longer than most, or the limit leaves no way on.
func (b *builder) build(pol policy, limit []int64, most int64) sequences {
	b.policy, b.limit = pol, limit
	b.mostIdle, b.useless, b.placed = 0, false, 0
	for i := range b.arrives[opF] {
		b.arrives[opF][i], b.arrives[opI][i] = notYet, notYet
	}
	clear(b.arrives[opF][:b.m])
	for r := range b.p {
		x := &b.ranks[r]
		b.seqs[r], *x = b.seqs[r][:0], state{slack: most - b.busy[r]}
		for lane := range b.lanes {
			first := b.slot(r, lane).first
			x.next[3*lane], x.next[3*lane+1], x.next[3*lane+2] = first, first, first
		}
		b.clock.set(r, 0)
	}
	for all := 3 * b.stages() * b.m; b.placed < all; {
		r, now := b.clock.first()
		switch {
		case b.useless:
			return nil
		case now < forever:
			b.decide(r, now)
		case !b.insist():
			return nil
		}
	}
	return b.seqs
}

// decide starts a pass on a rank or lets it wait. A rank that waits is asked
// again when an input arrives, and when it becomes known that one will.
func (b *builder) decide(r int, now int64) {
	var next op
	var until int64
	if b.block != nil {
		next, until = b.followBlock(r, now)
	} else {
		next, until = b.takeTurns(r, now)
	}
	if next == none {
		next = b.fillGap(r, max(0, until-now))
	}
	if next == none {
		b.clock.set(r, b.wait(r, now))
		return
	}
	b.begin(r, next, now)
}

// fillGap returns the weight gradient that should run now rather than the rank
// wait: the one that is due first, if any.
func (b *builder) fillGap(r int, gap int64) op {
	x := &b.ranks[r]
	best, first := none, forever
	for o := opW; int(o) < 3*b.lanes; o += 3 {
		if x.done[o] == x.done[o-1] {
			continue
		}
		var due int64
		if b.block != nil {
			due = b.block.at(r, o-1, x.done[o])
		}
		if due < first {
			best, first = o, due
		}
	}
	if best != none && b.squeeze.takes(gap, b.time[opW][x.next[best]], x.idle, b.mostIdle) {
		return best
	}
	return none
}

// insist starts a pass against the policy, where all ranks wait by it, and
// reports whether any was left.
func (b *builder) insist() bool {
	for r := range b.p {
		x := &b.ranks[r]
		for _, o := range [operations]op{upI, opI, upW, opW, upF, opF} {
			k := o.kind()
			if o.lane() >= b.lanes || x.done[o] == b.m || k != opF && x.done[o] == x.done[o-1] || !b.fitsNext(r, o) {
				continue
			}
			at := x.free
			if k != opW {
				at = b.arrives[k][x.next[o]]
			}
			if at != notYet {
				b.begin(r, o, max(x.free, at))
				return true
			}
		}
	}
	return false
}

// fitsNext reports whether memory lets the next pass of an operation start, and its
// microbatch come to its end. Alone on its rank, that always fits. With one stage per
// rank W never waits for memory, which it gives back.
func (b *builder) fitsNext(r int, o op) bool {
	x := &b.ranks[r]
	switch i, k := x.next[o], o.kind(); {
	case o == opF && x.done[opF] == x.done[opW], o == opW && b.lanes == 1:
		return true
	case b.strict:
		return x.level+b.start[k][i] <= b.limit[r]
	default:
		return x.level+b.need[k][i] <= b.limit[r]
	}
}

// arrival returns when the next pass of an operation can start at the earliest, as far as
// is known: forever where none is left or its own forward comes first, and later than
// now where what it waits for has not run, even if that takes no time.
func (b *builder) arrival(r int, o op, now int64) int64 {
	x, k := &b.ranks[r], o.kind()
	if x.done[o] == b.m || k == opI && x.done[o] >= x.done[o-1] {
		return forever
	}
	i := x.next[o]
	if at := b.arrives[k][i]; at != notYet {
		return at
	}
	own := b.slot(r, o.lane())
	if k == opF {
		return max(now+1, max(now, b.ranks[own.before].free)+b.time[opF][i-b.m]+own.toBefore)
	}
	return max(now+1, max(now, b.ranks[own.after].free)+b.time[opI][i+b.m]+own.toAfter)
}

// wait returns when a rank decides again if nothing new becomes known.
func (b *builder) wait(r int, now int64) int64 {
	until, x := forever, &b.ranks[r]
	for o := range op(3 * b.lanes) {
		if k := o.kind(); k != opW && x.done[o] < b.m {
			if at := b.arrives[k][x.next[o]]; at > now {
				until = min(until, at)
			}
		}
	}
	return until
}

// begin runs a pass.
func (b *builder) begin(r int, o op, now int64) {
	x := &b.ranks[r]
	i, k, own := x.next[o], o.kind(), b.slot(r, o.lane())
	if len(b.seqs[r]) > 0 {
		x.idle += now - x.free
		b.mostIdle = max(b.mostIdle, x.idle)
		b.useless = b.useless || x.idle > x.slack
	}
	if o == opI && x.done[opI] == 0 {
		x.warmUp = x.done[opF]
	}
	if k != opW {
		x.last = o
	}
	b.seqs[r] = append(b.seqs[r], o)
	x.level += b.net(k, i)
	x.done[o]++
	x.next[o]++
	b.placed++
	x.free = now + b.time[k][i]
	b.clock.set(r, x.free)
	switch {
	case k == opF && own.after < 0:
		b.arrives[opI][i] = x.free
	case k == opF:
		b.arrives[opF][i+b.m] = x.free + own.toAfter
		b.tell(own.after, now)
	case k == opI && own.before >= 0:
		b.arrives[opI][i-b.m] = x.free + own.toBefore
		b.tell(own.before, now)
	}
}

// tell lets a rank decide again once it is free, now that it knows more.
func (b *builder) tell(r int, now int64) {
	if at := max(now, b.ranks[r].free); at < b.clock.at(r) {
		b.clock.set(r, at)
	}
}
