package search

// A vBuilder makes orders for a V by following the clock, like a builder, with a
// building block to say what comes first.
type vBuilder struct {
	*problem
	vPolicy
	vBlock
	limit              []int64
	need               [3][]int64 // room that a pass takes, and its microbatch to come to its end
	arrivesF, arrivesI []int64
	words              words
	clock              *clock // when the ranks decide again
	ranks              []vState
	busy               []int64
	mostIdle           int64
	useless            bool // some rank has been idle for too long
	placed             int  // passes, for this order
}

// vState is how far a rank has been built.
type vState struct {
	done        [letters]int
	level, free int64
	idle, slack int64
}

func newVBuilder(q *problem) *vBuilder {
	n := q.stages() * q.m
	b := &vBuilder{
		problem: q, arrivesF: make([]int64, n), arrivesI: make([]int64, n),
		words: make(words, q.p), clock: newClock(q.p), ranks: make([]vState, q.p), busy: q.busy(),
	}
	for k := range b.need {
		b.need[k] = make([]int64, n)
	}
	for r := range q.p {
		b.words[r] = make([]byte, 0, 6*q.m)
		b.addNeeds(r)
	}
	return b
}

// addNeeds finds what room passes need so that their microbatch can come to its
// end while all else on the rank stays as it is: what it goes through until W has
// given back. For a forward it is the most of any microbatch, since others may get
// ahead.
func (b *vBuilder) addNeeds(r int) {
	down, up := b.seat(r, 0).first, b.seat(r, 1).first
	toEnd := func(i int) int64 { // from before I
		return max(b.start[letterI][i], b.net(letterI, i)+b.start[letterW][i])
	}
	var reserveDown, reserveUp int64
	for m := range b.m {
		reserveUp = max(reserveUp, toEnd(up+m), toEnd(down+m))
	}
	for m := range b.m {
		reserveDown = max(reserveDown, b.start[letterF][up+m], b.net(letterF, up+m)+reserveUp)
	}
	for m := range b.m {
		for _, i := range []int{down + m, up + m} {
			b.need[letterI][i], b.need[letterW][i] = toEnd(i), b.start[letterW][i]
		}
		b.need[letterF][down+m] = max(b.start[letterF][down+m], b.net(letterF, down+m)+reserveDown)
		b.need[letterF][up+m] = max(b.start[letterF][up+m], b.net(letterF, up+m)+reserveUp)
	}
}

// build makes an order by a block under a limit, which holds until the next one is
// built; nil where a span becomes longer than most, or the limit leaves no way on.
func (b *vBuilder) build(block vBlock, pol vPolicy, limit []int64, most int64) words {
	b.vBlock, b.vPolicy, b.limit = block, pol, limit
	b.mostIdle, b.useless, b.placed = 0, false, 0
	for i := range b.arrivesF {
		b.arrivesF[i], b.arrivesI[i] = notYet, notYet
	}
	for m := range b.m {
		b.arrivesF[m] = 0
	}
	for r := range b.p {
		b.words[r], b.ranks[r] = b.words[r][:0], vState{slack: most - b.busy[r]}
		b.clock.set(r, 0)
	}
	for b.placed < 6*b.m*b.p {
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
	return b.words
}

// at is the index of the next microbatch of a letter.
func (b *vBuilder) at(r int, l byte) int {
	return b.seat(r, int(l/3)).first + b.ranks[r].done[l]
}

// hasRoom reports whether memory lets the next pass of a letter start, and its
// microbatch come to its end. Alone on its rank, that always fits.
func (b *vBuilder) hasRoom(r int, l byte) bool {
	x := &b.ranks[r]
	if l == letterF && x.done[letterF] == x.done[letterW] {
		return true
	}
	i, k := b.at(r, l), kindOf[l]
	need := b.need[k][i]
	if b.strict {
		need = b.start[k][i]
	}
	return x.level+need <= b.limit[r]
}

// arrival is when the next pass of a letter can start at the earliest, as far as is
// known; what it waits for may still have to run.
func (b *vBuilder) arrival(r int, l byte, now int64) int64 {
	i, own := b.at(r, l), b.seat(r, int(l/3))
	if kindOf[l] == letterF {
		if at := b.arrivesF[i]; at != notYet {
			return at
		}
		return max(now+1, max(now, b.ranks[own.before].free)+b.time[letterF][i-b.m]+own.toBefore)
	}
	if b.ranks[r].done[l] >= b.ranks[r].done[l-1] { // its own forward comes first
		return forever
	}
	if at := b.arrivesI[i]; at != notYet {
		return at
	}
	return max(now+1, max(now, b.ranks[own.after].free)+b.time[letterI][i+b.m]+own.toAfter)
}

// An outlook is what a rank could run next of F and I: head is due first by the
// block, ready first of those that can start now; letters where there is none.
type outlook struct {
	head, ready byte
	headAt      int64 // when head can start, as far as is known; forever without room
	until       int64 // when any other can
}

func (b *vBuilder) outlook(r int, now int64) outlook {
	x := &b.ranks[r]
	o := outlook{head: letters, ready: letters, until: forever}
	var first, firstReady int64
	for _, l := range vPhases {
		if x.done[l] == b.m {
			continue
		}
		due := b.vBlock.due[r][l] + int64(x.done[l])*b.period
		at := b.arrival(r, l, now)
		room := b.hasRoom(r, l)
		if o.head == letters || due < first {
			o.head, first, o.headAt = l, due, at
			if !room {
				o.headAt = forever
			}
		}
		switch {
		case !room:
		case at > now:
			o.until = min(o.until, at)
		case o.ready == letters || due < firstReady:
			o.ready, firstReady = l, due
		}
	}
	if b.strict {
		o.until = o.headAt
		if o.ready != o.head {
			o.ready = letters
		}
	}
	return o
}

// decide starts a pass on a rank or lets it wait, as a builder's does.
func (b *vBuilder) decide(r int, now int64) {
	o := b.outlook(r, now)
	if o.ready != letters {
		if o.ready == o.head || !b.patient || o.headAt >= now+b.time[kindOf[o.ready]][b.at(r, o.ready)] {
			b.begin(r, o.ready, now)
			return
		}
		o.until = o.headAt
	}
	if l := b.weight(r); l != letters && b.fillsGap(r, l, max(0, o.until-now)) {
		b.begin(r, l, now)
		return
	}
	b.clock.set(r, b.wait(r, now))
}

// weight is the weight gradient that is due first by the block, of those that can
// run; letters if none.
func (b *vBuilder) weight(r int) byte {
	x := &b.ranks[r]
	best, first := byte(letters), forever
	for _, l := range [2]byte{letterW, upW} {
		if x.done[l] < x.done[l-1] {
			if due := b.vBlock.due[r][l-1] + int64(x.done[l])*b.period; due < first {
				best, first = l, due
			}
		}
	}
	return best
}

// fillsGap reports whether W should run now rather than the rank wait.
func (b *vBuilder) fillsGap(r int, l byte, gap int64) bool {
	return b.squeeze.takes(gap, b.time[letterW][b.at(r, l)], b.ranks[r].idle, b.mostIdle)
}

// wait is when a rank decides again if nothing new becomes known.
func (b *vBuilder) wait(r int, now int64) int64 {
	until := forever
	for _, l := range vPhases {
		if b.ranks[r].done[l] == b.m {
			continue
		}
		arrives := b.arrivesF
		if kindOf[l] == letterI {
			arrives = b.arrivesI
		}
		if at := arrives[b.at(r, l)]; at > now {
			until = min(until, at)
		}
	}
	return until
}

// insist starts a pass against the policy, where all ranks wait by it, and
// reports whether any was left.
func (b *vBuilder) insist() bool {
	for r := range b.p {
		x := &b.ranks[r]
		for _, l := range [letters]byte{upI, letterI, upW, letterW, upF, letterF} {
			if x.done[l] == b.m || kindOf[l] != letterF && x.done[l] == x.done[l-1] || !b.hasRoom(r, l) {
				continue
			}
			at := x.free
			switch kindOf[l] {
			case letterF:
				at = b.arrivesF[b.at(r, l)]
			case letterI:
				at = b.arrivesI[b.at(r, l)]
			}
			if at != notYet {
				b.begin(r, l, max(x.free, at))
				return true
			}
		}
	}
	return false
}

// begin runs a pass.
func (b *vBuilder) begin(r int, l byte, now int64) {
	x := &b.ranks[r]
	i, k, own := b.at(r, l), kindOf[l], b.seat(r, int(l/3))
	if len(b.words[r]) > 0 {
		x.idle += now - x.free
		b.mostIdle = max(b.mostIdle, x.idle)
		b.useless = b.useless || x.idle > x.slack
	}
	b.words[r] = append(b.words[r], l)
	x.level += b.net(int(k), i)
	x.done[l]++
	b.placed++
	end := now + b.time[k][i]
	x.free = end
	b.clock.set(r, end)
	switch {
	case k == letterF && own.after < 0:
		b.arrivesI[i] = end
	case k == letterF:
		b.arrivesF[i+b.m] = end + own.toAfter
		b.tell(own.after, now)
	case k == letterI && own.before >= 0:
		b.arrivesI[i-b.m] = end + own.toBefore
		b.tell(own.before, now)
	}
}

// tell lets a rank decide again once it is free, now that it knows more.
func (b *vBuilder) tell(r int, now int64) {
	if at := max(now, b.ranks[r].free); at < b.clock.at(r) {
		b.clock.set(r, at)
	}
}
