package search

// A policy settles what a builder leaves open: what comes first, F or I, and when W
// does (compare Qi et al. 2023, section 4, which tries such choices in all
// combinations). With a building block, F and I come as they are due by it;
// otherwise, with one stage per rank, they take turns.
type policy struct {
	block *block
	// strict runs F and I as the block has them. Otherwise whatever is ready may
	// run earlier: the ramps have gaps, and times are not all alike.
	strict bool
	// patient lets no pass run earlier where that delays the next one by the block.
	patient bool
	// delayFirst runs a forward although the first input gradient arrives before
	// it would end, delayLater although another does.
	delayFirst, delayLater bool
	// alternate runs a forward after an input gradient, even where the next
	// input gradient has arrived, and before it W where that frees its memory.
	alternate bool
	// capped lets no more forwards be ahead of the input gradients than the
	// warm-up ran.
	capped bool
	// squeeze says when W runs in a gap that is shorter than it.
	squeeze squeeze
}

type squeeze uint8

const (
	never        squeeze = iota
	ifBehind             // where waiting would make this rank the one with most idle time
	ifMostlyFits         // where at least half of it fits
)

// takes reports whether a W that is so long runs in a gap of a rank that has idled
// for so long, where none has for longer than mostIdle.
func (s squeeze) takes(gap, long, idle, mostIdle int64) bool {
	switch {
	case gap >= long:
		return true
	case s == ifBehind:
		return idle+gap > mostIdle
	case s == ifMostlyFits:
		return 2*gap >= long
	}
	return false
}

// turnPolicies lists all ways to take turns, the most promising first.
func turnPolicies() []policy {
	var list []policy
	for bits := range 4 {
		for _, squeeze := range []squeeze{ifBehind, never, ifMostlyFits} {
			for more := range 4 {
				list = append(list, policy{
					delayFirst: bits&1 > 0, capped: bits&2 == 0, squeeze: squeeze,
					alternate: more&1 == 0, delayLater: more&2 > 0,
				})
			}
		}
	}
	return list
}

// blockPolicies lists all ways to follow a block, the most promising first.
func blockPolicies() []policy {
	var list []policy
	for _, squeeze := range []squeeze{ifBehind, never, ifMostlyFits} {
		list = append(list, policy{strict: true, squeeze: squeeze}, policy{patient: true, squeeze: squeeze}, policy{squeeze: squeeze})
	}
	return list
}

// takeTurns says which of F and I a rank with one stage runs now; none where it
// waits, until when one of them can start. It makes way for W by waiting forever.
func (b *builder) takeTurns(r int, now int64) (next op, until int64) {
	x := &b.ranks[r]
	n := &x.done
	atF, atI := b.arrival(r, opF, now), b.arrival(r, opI, now)
	full := b.capped && n[opI] > 0 && n[opF]-n[opI] >= x.warmUp
	fitsF := n[opF] < b.m && !full && b.fitsNext(r, opF)
	fitsI := n[opI] < b.m && b.fitsNext(r, opI)
	waitingW := n[opW] < n[opI]
	turnF := b.alternate && x.last == opI && atF <= now && (fitsF || waitingW && !full)
	delay := b.delayFirst
	if n[opI] > 0 {
		delay = b.delayLater
	}
	switch {
	case atI <= now && fitsI && !turnF:
		return opI, 0
	case atF <= now && fitsF && (delay || turnF || atI <= now || !fitsI || atI >= now+b.time[opF][x.next[opF]]):
		return opF, 0
	}
	until = forever
	if fitsF && !turnF {
		until = atF
	}
	if fitsI && !turnF {
		until = min(until, atI)
	}
	return none, until
}

// followBlock says which F or I a rank runs now by the building block; none where
// it waits, until when one can start.
func (b *builder) followBlock(r int, now int64) (next op, until int64) {
	a := b.lookAhead(r, now)
	if a.ready == none {
		return none, a.until
	}
	if a.ready == a.head || !b.patient || a.headAt >= now+b.time[a.ready.kind()][b.ranks[r].next[a.ready]] {
		return a.ready, 0
	}
	return none, a.headAt
}

// A lookahead is what a rank could run next of F and I: head is due first by the
// block, ready first of those that can start now; none where there is no such.
type lookahead struct {
	head, ready op
	headAt      int64 // when head can start, as far as is known; forever where memory is full
	until       int64 // when any other can
}

func (b *builder) lookAhead(r int, now int64) lookahead {
	x := &b.ranks[r]
	a := lookahead{head: none, ready: none, until: forever}
	var first, firstReady int64
	for _, o := range phases {
		if x.done[o] == b.m {
			continue
		}
		due, at, fits := b.block.at(r, o, x.done[o]), b.arrival(r, o, now), b.fitsNext(r, o)
		if a.head == none || due < first {
			a.head, first, a.headAt = o, due, at
			if !fits {
				a.headAt = forever
			}
		}
		switch {
		case !fits:
		case at > now:
			a.until = min(a.until, at)
		case a.ready == none || due < firstReady:
			a.ready, firstReady = o, due
		}
	}
	if b.strict {
		a.until = a.headAt
		if a.ready != a.head {
			a.ready = none
		}
	}
	return a
}
