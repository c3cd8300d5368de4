package search

import "math"

// A policy settles what the greedy construction leaves open (compare Qi et al.
// 2023, section 4, which tries such choices in all combinations).
type policy struct {
	// delayFirst runs a forward although the first input gradient arrives before
	// it would end, delayLater although another does.
	delayFirst, delayLater bool
	// alternate runs a forward after an input gradient, even where the next
	// input gradient has arrived, and before it W where that makes room.
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

// policies lists all combinations, the most promising first.
func policies() []policy {
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

// forever comes after every time.
const forever = int64(math.MaxInt64)

// A builder makes an order by following the clock: whenever a rank is free, the
// policy says what it runs next, or until when it waits. It serves one order after
// another.
type builder struct {
	*problem
	policy
	limit              []int64
	needF, needI       []int64 // room for a pass, and for the microbatch to come to its end
	arrivesF, arrivesI []int64
	words              words
	clock              *clock // when the ranks decide again
	ranks              []state
	busy               []int64 // by rank: what its passes take
	mostIdle           int64
	useless            bool // some rank has been idle for too long
}

// state is how far a rank has been built.
type state struct {
	done     [3]int
	lastPass byte // F or I
	level    int64
	free     int64 // end of the last pass
	warmUp   int   // forwards before the first input gradient
	idle     int64 // within the span so far
	slack    int64 // idle time after which the order is of no use
}

func newBuilder(q *problem) *builder {
	n := q.p * q.m
	b := &builder{
		problem: q, needF: make([]int64, n), needI: make([]int64, n), arrivesF: make([]int64, n), arrivesI: make([]int64, n),
		words: make(words, q.p), clock: newClock(q.p), ranks: make([]state, q.p), busy: q.busy(),
	}
	for r := range q.p {
		b.words[r] = make([]byte, 0, 3*q.m)
		var reserve int64 // that I and W may need on top
		for i := r * q.m; i < (r+1)*q.m; i++ {
			reserve = max(reserve, q.start[letterI][i], q.net(letterI, i)+q.start[letterW][i])
		}
		for i := r * q.m; i < (r+1)*q.m; i++ {
			b.needF[i] = max(q.start[letterF][i], q.net(letterF, i)+reserve)
			b.needI[i] = max(q.start[letterI][i], q.net(letterI, i)+q.start[letterW][i])
		}
	}
	return b
}

// build makes an order under a limit, which holds until the next one is built. It
// gives up, with nil, where a span becomes longer than most. Otherwise it always
// ends, because a forward starts only where its microbatch can be brought to its
// end.
func (b *builder) build(pol policy, limit []int64, most int64) words {
	b.policy, b.limit, b.mostIdle, b.useless = pol, limit, 0, false
	for i := range b.arrivesF {
		b.arrivesF[i], b.arrivesI[i] = notYet, notYet
	}
	for m := range b.m {
		b.arrivesF[m] = 0
	}
	for r := range b.p {
		b.words[r], b.ranks[r] = b.words[r][:0], state{slack: most - b.busy[r]}
		b.clock.set(r, 0)
	}
	for {
		r, now := b.clock.first()
		switch {
		case b.useless:
			return nil
		case now < forever:
			b.decide(r, now)
		case !b.insist():
			return b.words
		}
	}
}

// insist starts a pass against the policy, where all ranks wait by it, and
// reports whether any was left.
func (b *builder) insist() bool {
	for r := range b.p {
		x := &b.ranks[r]
		atF, atI := b.arrival(b.arrivesF, r, letterF), b.arrival(b.arrivesI, r, letterI)
		switch n := x.done; {
		case atI != notYet && n[letterI] < n[letterF] && b.roomForI(r):
			b.begin(r, letterI, max(x.free, atI))
		case n[letterW] < n[letterI]:
			b.begin(r, letterW, x.free)
		case atF != notYet && b.roomForF(r):
			b.begin(r, letterF, max(x.free, atF))
		default:
			continue
		}
		return true
	}
	return false
}

// decide starts a pass on a rank or lets it wait. A rank that waits is asked
// again when an input arrives, and when it becomes known that one will.
func (b *builder) decide(r int, now int64) {
	x := &b.ranks[r]
	n := x.done
	if n[letterW] == b.m {
		b.clock.set(r, forever)
		return
	}
	atF, atI := b.arrivals(r, now)
	roomI := n[letterI] < b.m && b.roomForI(r)
	full := b.full(x)
	roomF := n[letterF] < b.m && !full && b.roomForF(r)
	canF, canI := atF <= now && roomF, atI <= now && roomI
	canW := n[letterW] < n[letterI]
	turnF := b.alternate && x.lastPass == letterI && atF <= now && (roomF || canW && !full)
	delay := b.delayFirst
	if n[letterI] > 0 {
		delay = b.delayLater
	}
	switch {
	case canI && !turnF:
		b.begin(r, letterI, now)
	case canF && (delay || turnF || atI <= now || !roomI || atI >= now+b.time[letterF][r*b.m+n[letterF]]):
		b.begin(r, letterF, now)
	case canW && (turnF || b.fillsGap(r, now, atF, atI, roomF, roomI)):
		b.begin(r, letterW, now)
	default:
		b.clock.set(r, b.wait(r, now))
	}
}

// arrivals is when the next F and the next I could start at the earliest, as far
// as is known: forever where none is left, and not yet where the pass that they
// wait for has not run, even if that takes no time.
func (b *builder) arrivals(r int, now int64) (atF, atI int64) {
	atF, atI = forever, forever
	n := &b.ranks[r].done
	if f := n[letterF]; f < b.m {
		atF = b.arrivesF[r*b.m+f]
		if atF == notYet {
			atF = max(now+1, max(now, b.ranks[r-1].free)+b.time[letterF][(r-1)*b.m+f]+b.latency[r-1])
		}
	}
	if i := n[letterI]; i < n[letterF] { // else its own forward comes first
		atI = b.arrivesI[r*b.m+i]
		if atI == notYet {
			atI = max(now+1, max(now, b.ranks[r+1].free)+b.time[letterI][(r+1)*b.m+i]+b.latency[r])
		}
	}
	return atF, atI
}

// roomForF reports whether memory lets the next F start and, after it, its
// microbatch come to its end. Alone, it always fits.
func (b *builder) roomForF(r int) bool {
	x := &b.ranks[r]
	return x.done[letterF] == x.done[letterW] || x.level+b.needF[r*b.m+x.done[letterF]] <= b.limit[r]
}

// roomForI is the same for the next I.
func (b *builder) roomForI(r int) bool {
	x := &b.ranks[r]
	return x.level+b.needI[r*b.m+x.done[letterI]] <= b.limit[r]
}

// full reports whether the policy lets no forward get further ahead.
func (b *builder) full(x *state) bool {
	return b.capped && x.done[letterI] > 0 && x.done[letterF]-x.done[letterI] >= x.warmUp
}

// fillsGap reports whether W should run now rather than the rank wait.
func (b *builder) fillsGap(r int, now, atF, atI int64, roomF, roomI bool) bool {
	until := forever
	if roomF {
		until = atF
	}
	if roomI {
		until = min(until, atI)
	}
	until = max(until, now)
	long := b.time[letterW][r*b.m+b.ranks[r].done[letterW]]
	return b.squeeze.takes(until-now, long, b.ranks[r].idle, b.mostIdle)
}

// wait is when a rank decides again if nothing new becomes known.
func (b *builder) wait(r int, now int64) int64 {
	until := forever
	if at := b.arrival(b.arrivesF, r, letterF); at > now {
		until = at
	}
	if at := b.arrival(b.arrivesI, r, letterI); at > now {
		until = min(until, at)
	}
	return until
}

// arrival is when the next input of a kind arrives, or notYet.
func (b *builder) arrival(arrives []int64, r, k int) int64 {
	n := b.ranks[r].done[k]
	if n == b.m {
		return notYet
	}
	return arrives[r*b.m+n]
}

// begin runs a pass.
func (b *builder) begin(r, k int, now int64) {
	x := &b.ranks[r]
	i := r*b.m + x.done[k]
	if len(b.words[r]) > 0 {
		x.idle += now - x.free
		b.mostIdle = max(b.mostIdle, x.idle)
		b.useless = b.useless || x.idle > x.slack
	}
	if k == letterI && x.done[k] == 0 {
		x.warmUp = x.done[letterF]
	}
	b.words[r] = append(b.words[r], byte(k))
	if k != letterW {
		x.lastPass = byte(k)
	}
	x.level += b.net(k, i)
	x.done[k]++
	end := now + b.time[k][i]
	x.free = end
	b.clock.set(r, end)
	switch {
	case k == letterF && r == b.p-1:
		b.arrivesI[i] = end
	case k == letterF:
		b.arrivesF[i+b.m] = end + b.latency[r]
		b.tell(r+1, now)
	case k == letterI && r > 0:
		b.arrivesI[i-b.m] = end + b.latency[r-1]
		b.tell(r-1, now)
	}
}

// tell lets a rank decide again once it is free, now that it knows more.
func (b *builder) tell(r int, now int64) {
	if at := max(now, b.ranks[r].free); at < b.clock.at(r) {
		b.clock.set(r, at)
	}
}
