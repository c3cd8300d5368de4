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
// policy says what it runs next, or until when it waits.
type builder struct {
	*problem
	policy
	limit              []int64
	arrivesF, arrivesI []int64
	words              words
	lastPass           []byte // by rank: the last F or I
	done               [][3]int
	level              []int64
	free               []int64 // end of the last pass
	next               []int64 // when the rank decides again
	warmUp             []int   // forwards before the first input gradient
	idle               []int64 // within the span so far
	mostIdle           int64
	reserve            []int64 // by rank: room that I and W may need on top
}

// build makes an order under a limit. It always ends, because a forward starts
// only where its microbatch can be brought to its end.
func (q *problem) build(pol policy, limit []int64) words {
	b := &builder{
		problem: q, policy: pol, limit: limit, words: make(words, q.p), lastPass: make([]byte, q.p), done: make([][3]int, q.p),
		arrivesF: make([]int64, q.p*q.m), arrivesI: make([]int64, q.p*q.m),
		level: make([]int64, q.p), free: make([]int64, q.p), next: make([]int64, q.p),
		warmUp: make([]int, q.p), idle: make([]int64, q.p), reserve: make([]int64, q.p),
	}
	for i := range b.arrivesF {
		b.arrivesF[i], b.arrivesI[i] = notYet, notYet
	}
	for m := range q.m {
		b.arrivesF[m] = 0
	}
	for r := range q.p {
		b.words[r] = make([]byte, 0, 3*q.m)
		for i := r * q.m; i < (r+1)*q.m; i++ {
			b.reserve[r] = max(b.reserve[r], q.start[letterI][i], q.net(letterI, i)+q.start[letterW][i])
		}
	}
	for {
		r, now := b.first()
		switch {
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
		at := b.free[r]
		atF, atI := b.arrival(b.arrivesF, r, letterF), b.arrival(b.arrivesI, r, letterI)
		switch n := b.done[r]; {
		case atI != notYet && n[letterI] < n[letterF] && b.hasRoom(r, letterI):
			b.begin(r, letterI, max(at, atI))
		case n[letterW] < n[letterI]:
			b.begin(r, letterW, at)
		case atF != notYet && b.hasRoom(r, letterF):
			b.begin(r, letterF, max(at, atF))
		default:
			continue
		}
		return true
	}
	return false
}

// first is the rank that decides next, and when.
func (b *builder) first() (rank int, now int64) {
	now = forever
	for r, at := range b.next {
		if at < now {
			rank, now = r, at
		}
	}
	return rank, now
}

// decide starts a pass on a rank or lets it wait. A rank that waits is asked
// again when an input arrives, and when it becomes known that one will.
func (b *builder) decide(r int, now int64) {
	if b.done[r][letterW] == b.m {
		b.next[r] = forever
		return
	}
	atF, atI := b.arrivals(r, now)
	roomF, roomI := b.room(r, letterF), b.room(r, letterI)
	canF, canI := atF <= now && roomF, atI <= now && roomI
	canW := b.done[r][letterW] < b.done[r][letterI]
	turnF := b.alternate && b.lastPass[r] == letterI && atF <= now && (roomF || canW && !b.full(r))
	delay := b.delayFirst
	if b.done[r][letterI] > 0 {
		delay = b.delayLater
	}
	switch {
	case canI && !turnF:
		b.begin(r, letterI, now)
	case canF && (delay || turnF || atI <= now || !roomI || atI >= now+b.time[letterF][r*b.m+b.done[r][letterF]]):
		b.begin(r, letterF, now)
	case canW && (turnF || b.fillsGap(r, now, atF, atI, roomF, roomI)):
		b.begin(r, letterW, now)
	default:
		b.next[r] = b.wait(r, now)
	}
}

// arrivals is when the next F and the next I could start at the earliest, as far
// as is known: forever where none is left.
func (b *builder) arrivals(r int, now int64) (atF, atI int64) {
	atF, atI = forever, forever
	if n := b.done[r][letterF]; n < b.m {
		atF = b.arrivesF[r*b.m+n]
		if atF == notYet {
			atF = max(now, b.free[r-1]) + b.time[letterF][(r-1)*b.m+n] + b.latency[r-1]
		}
	}
	if n := b.done[r][letterI]; n < b.done[r][letterF] { // else its own forward comes first
		atI = b.arrivesI[r*b.m+n]
		if atI == notYet {
			atI = max(now, b.free[r+1]) + b.time[letterI][(r+1)*b.m+n] + b.latency[r]
		}
	}
	return atF, atI
}

// room reports whether a pass may start as far as memory and the policy go.
func (b *builder) room(r, k int) bool {
	return b.done[r][k] < b.m && !(k == letterF && b.full(r)) && b.hasRoom(r, k)
}

// hasRoom reports whether memory lets a pass start and, after it, the microbatch
// come to its end.
func (b *builder) hasRoom(r, k int) bool {
	i := r*b.m + b.done[r][k]
	after := b.reserve[r]
	switch {
	case k == letterI:
		after = b.start[letterW][i]
	case b.done[r][letterF] == b.done[r][letterW]: // alone, it fits
		return true
	}
	return b.level[r]+max(b.start[k][i], b.net(k, i)+after) <= b.limit[r]
}

// full reports whether the policy lets no forward get further ahead.
func (b *builder) full(r int) bool {
	n := b.done[r]
	return b.capped && n[letterI] > 0 && n[letterF]-n[letterI] >= b.warmUp[r]
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
	long := b.time[letterW][r*b.m+b.done[r][letterW]]
	switch gap := until - now; {
	case gap >= long:
		return true
	case b.squeeze == ifBehind:
		return b.idle[r]+gap > b.mostIdle
	case b.squeeze == ifMostlyFits:
		return 2*gap >= long
	}
	return false
}

// wait is when a rank decides again if nothing new becomes known.
func (b *builder) wait(r int, now int64) int64 {
	until := forever
	for _, at := range []int64{b.arrival(b.arrivesF, r, letterF), b.arrival(b.arrivesI, r, letterI)} {
		if at > now {
			until = min(until, at)
		}
	}
	return until
}

// arrival is when the next input of a kind arrives, or notYet.
func (b *builder) arrival(arrives []int64, r, k int) int64 {
	if b.done[r][k] == b.m {
		return notYet
	}
	return arrives[r*b.m+b.done[r][k]]
}

// begin runs a pass.
func (b *builder) begin(r, k int, now int64) {
	i := r*b.m + b.done[r][k]
	if len(b.words[r]) > 0 {
		b.idle[r] += now - b.free[r]
		b.mostIdle = max(b.mostIdle, b.idle[r])
	}
	if k == letterI && b.done[r][k] == 0 {
		b.warmUp[r] = b.done[r][letterF]
	}
	b.words[r] = append(b.words[r], byte(k))
	if k != letterW {
		b.lastPass[r] = byte(k)
	}
	b.level[r] += b.net(k, i)
	b.done[r][k]++
	end := now + b.time[k][i]
	b.free[r], b.next[r] = end, end
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
	b.next[r] = min(b.next[r], max(now, b.free[r]))
}
