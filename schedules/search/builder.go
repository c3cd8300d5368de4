package search

import "math"

// forever is later than any time.
const forever = int64(math.MaxInt64)

// A builder makes an order by following the clock: whenever a rank is free, the
// policy says which pass it runs next, or until when it waits. A builder is reused for
// one order after another.
type builder struct {
	*problem
	policy
	limit    []int64
	needed   [3][]int64 // bytes that a pass and the rest of its microbatch need
	arrives  [2][]int64 // when the input of F and of I arrives, or notYet
	seqs     sequences
	clock    *clock // when the ranks decide again
	ranks    []state
	busy     []int64 // by rank: the total time of its passes
	mostIdle int64
	tooIdle  bool // a rank has been idle for too long
	placed   int  // passes of this order
}

// state holds the progress of a rank.
type state struct {
	done   [operations]int
	next   [operations]int // index of the next microbatch of each stage
	last   op              // F or I
	level  int64
	free   int64 // end of the last pass
	warmUp int   // forwards before the first input gradient
	idle   int64 // within the span so far
	slack  int64 // the idle time beyond which the order is discarded
}

func newBuilder(q *problem) *builder {
	n := q.stages() * q.m
	b := &builder{
		problem: q, seqs: make(sequences, q.p), clock: newClock(q.p), ranks: make([]state, q.p), busy: q.busy(),
	}
	for k := range b.arrives {
		b.arrives[k] = make([]int64, n)
	}
	for k := range b.needed {
		b.needed[k] = make([]int64, n)
	}
	for r := range q.p {
		b.seqs[r] = make(sequence, 0, 3*q.lanes*q.m)
		b.addNeeds(r)
	}
	return b
}

// addNeeds finds the memory that a pass needs so that its microbatch can finish while
// nothing else on the rank changes: the peak until its W. A forward takes the maximum
// over all microbatches, since others may get ahead.
func (b *builder) addNeeds(r int) {
	var reserve int64 // memory that later passes of the microbatch may need in addition
	for lane := range b.lanes {
		first := b.slot(r, lane).first
		for i := first; i < first+b.m; i++ {
			b.needed[opW][i] = b.start[opW][i]
			b.needed[opI][i] = max(b.start[opI][i], b.net(opI, i)+b.start[opW][i])
			reserve = max(reserve, b.needed[opI][i])
		}
	}
	for lane := b.lanes - 1; lane >= 0; lane-- {
		first := b.slot(r, lane).first
		var most int64
		for i := first; i < first+b.m; i++ {
			b.needed[opF][i] = max(b.start[opF][i], b.net(opF, i)+reserve)
			most = max(most, b.needed[opF][i])
		}
		reserve = most
	}
}

// build makes an order under a limit. The order is valid until the next call. build
// returns nil if a span becomes longer than most, or no pass can run within the limit.
func (b *builder) build(pol policy, limit []int64, most int64) sequences {
	b.policy, b.limit = pol, limit
	b.mostIdle, b.tooIdle, b.placed = 0, false, 0
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
		case b.tooIdle:
			return nil
		case now < forever:
			b.decide(r, now)
		case !b.breakDeadlock():
			return nil
		}
	}
	return b.seqs
}

// decide starts a pass on a rank or lets it wait. A waiting rank decides again when an
// input arrives, and when it becomes known that an input will arrive.
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
	b.run(r, next, now)
}

// fillGap returns the weight gradient to run while the rank would wait: the one that is
// due first, or none.
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
	if best != none && b.squeeze.fillsGap(gap, b.time[opW][x.next[best]], x.idle, b.mostIdle) {
		return best
	}
	return none
}

// breakDeadlock starts a pass against the policy when the policy makes all ranks wait. It
// reports whether any pass could start.
func (b *builder) breakDeadlock() bool {
	for r := range b.p {
		x := &b.ranks[r]
		for _, o := range [operations]op{upI, opI, upW, opW, upF, opF} {
			k := o.kind()
			finished := o.lane() >= b.lanes || x.done[o] == b.m
			if finished || k != opF && x.done[o] == x.done[o-1] || !b.fitsNext(r, o) {
				continue
			}
			at := x.free
			if k != opW {
				at = b.arrives[k][x.next[o]]
			}
			if at != notYet {
				b.run(r, o, max(x.free, at))
				return true
			}
		}
	}
	return false
}

// fitsNext reports whether memory suffices for the next pass of an operation and the
// rest of its microbatch. A microbatch alone on its rank always fits. With one stage per
// rank W never waits for memory, because it only frees some.
func (b *builder) fitsNext(r int, o op) bool {
	x := &b.ranks[r]
	switch i, k := x.next[o], o.kind(); {
	case o == opF && x.done[opF] == x.done[opW], o == opW && b.lanes == 1:
		return true
	case b.strict:
		return x.level+b.start[k][i] <= b.limit[r]
	default:
		return x.level+b.needed[k][i] <= b.limit[r]
	}
}

// arrival returns the earliest time, as far as is known, when the input of the next pass
// of an operation arrives. It is forever if no pass is left or its own forward has not
// run, and later than now if its input has not been computed, even if that takes no time.
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

// wait returns the time when a rank decides again unless it is woken before.
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

// run appends a pass to the order of a rank.
func (b *builder) run(r int, o op, now int64) {
	x := &b.ranks[r]
	i, k, own := x.next[o], o.kind(), b.slot(r, o.lane())
	if len(b.seqs[r]) > 0 {
		x.idle += now - x.free
		b.mostIdle = max(b.mostIdle, x.idle)
		b.tooIdle = b.tooIdle || x.idle > x.slack
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
		b.wake(own.after, now)
	case k == opI && own.before >= 0:
		b.arrives[opI][i-b.m] = x.free + own.toBefore
		b.wake(own.before, now)
	}
}

// wake lets a rank decide again once it is free, because more is known.
func (b *builder) wake(r int, now int64) {
	if at := max(now, b.ranks[r].free); at < b.clock.at(r) {
		b.clock.set(r, at)
	}
}
