package search

// A policy settles what a builder leaves open: whether F or I comes first, and when W
// runs (compare Qi et al. 2023, section 4, which tries such choices in all
// combinations). With a building block, F and I run when the block says they are due;
// otherwise, with one stage per rank, they take turns.
type policy struct {
	block *block
	// strict runs F and I in the order of the block. Otherwise any pass that is ready may
	// run earlier: the ramps have gaps, and times differ.
	strict bool
	// patient does not run a pass early if it would delay the next pass of the block.
	patient bool
	// delayFirst runs a forward even if the first input gradient arrives before the
	// forward ends; delayLater does so for later input gradients.
	delayFirst, delayLater bool
	// alternate runs a forward after an input gradient, even if the next input gradient
	// has arrived, and a W before that forward if this frees its memory.
	alternate bool
	// capped limits forwards ahead of input gradients to the number of warm-up forwards.
	capped bool
	// squeeze says when W runs in a gap that is too short for it.
	squeeze squeeze
}

// squeeze says when a W runs in a gap that is too short for it.
type squeeze uint8

const (
	never        squeeze = iota
	ifBehind             // if waiting would give this rank the most idle time
	ifMostlyFits         // if at least half of it fits
)

// fillsGap reports whether a W of a given length runs in a gap. idle is the idle time of
// its rank, mostIdle that of the rank that has idled most.
func (s squeeze) fillsGap(gap, long, idle, mostIdle int64) bool {
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
		list = append(list,
			policy{strict: true, squeeze: squeeze}, policy{patient: true, squeeze: squeeze}, policy{squeeze: squeeze})
	}
	return list
}

// takeTurns returns whether a rank with one stage runs F or I now, or none if it waits,
// and until when. To let a W run, it waits forever.
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

// followBlock returns the F or I that a rank runs now by its building block, or none if
// it waits, and until when.
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

// A lookahead holds the next F or I of a rank: head is due first by the block, ready is
// due first of those that can start now; either may be none.
type lookahead struct {
	head, ready op
	headAt      int64 // when head can start, as far as is known; forever if memory is full
	until       int64 // when any other can start
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
