package search

import (
	"math"
	"slices"
)

// lowerBound returns a span that no order is below, of any kind: the largest that holds
// for one rank.
//
// A rank is busy for the sum of its passes. Beside that it waits where what it
// needs is on its way through the ranks behind it: before its first I, once it
// has run all forwards that memory can hold, and after its last F, once it
// has run all that was left. And memory holds a microbatch from its F to its W,
// which is longer than the way to the last rank and back.
func (q *problem) lowerBound() int64 {
	var best int64
	busy := q.busy()
	for r, t := range q.trips() {
		best = max(best, q.rankBound(r, t, busy[r]))
	}
	return best
}

// A trip is the least time, over all microbatches, from the start of a rank's first F
// to that of its first I, to that of its last I, and from the start of its last F to
// its first I. With one stage per rank they are the same.
type trip struct{ toFirst, toLast, upper int64 }

// trips finds them for every rank.
func (q *problem) trips() []trip {
	least := slices.Repeat([]trip{{math.MaxInt64, math.MaxInt64, math.MaxInt64}}, q.p)
	there, back := make([]int64, q.stages()), make([]int64, q.stages())
	for m := range q.m {
		var down int64 // from the first stage's F to this one's
		for s := range there {
			there[s] = down
			down += q.time[opF][s*q.m+m]
			if s+1 < len(there) {
				down += q.latency[s]
			}
		}
		var below int64
		for s := len(back) - 1; s >= 0; s-- { // from a stage's F to its I
			i := s*q.m + m
			back[s] = below + q.time[opF][i]
			if s > 0 {
				below += q.time[opF][i] + q.time[opI][i] + 2*q.latency[s-1]
			}
		}
		for r := range least {
			low, high, t := q.slot(r, 0).stage, q.slot(r, q.lanes-1).stage, &least[r]
			t.toFirst = min(t.toFirst, there[high]-there[low]+back[high])
			t.toLast, t.upper = min(t.toLast, back[low]), min(t.upper, back[high])
		}
	}
	return least
}

func (q *problem) rankBound(r int, t trip, busy int64) int64 {
	first := q.slot(r, 0).first
	leastRest := int64(math.MaxInt64)
	for i := first; i < first+q.m; i++ {
		leastRest = min(leastRest, q.time[opI][i]+q.time[opW][i])
	}
	most := q.mostForwards(r)
	before := max(0, t.toFirst-q.warmUp(r, most))
	after := q.idleAfter(r, t.toLast)
	if q.lanes > 1 {
		after = q.idleAfterV(r, t.toLast)
	}
	best := max(busy+before, busy+after, t.toLast+leastRest, q.memoryBound(r, t))
	if most < q.m { // the last F comes after the first I, so both waits are there
		best = max(best, busy+before+after)
	}
	return best
}

// mostForwards counts how many forwards a rank can run at most before its first I.
func (q *problem) mostForwards(r int) int {
	least, first := int64(math.MaxInt64), int64(math.MaxInt64)
	for lane := range q.lanes {
		from := q.slot(r, lane).first
		for i := from; i < from+q.m; i++ {
			least, first = min(least, q.net(opF, i)), min(first, q.start[opF][i])
		}
	}
	if least <= 0 {
		return q.lanes * q.m
	}
	n := (q.limit[r] - max(0, first)) / least // that are there when another starts
	return int(max(1, min(int64(q.lanes*q.m), n+1)))
}

// warmUp bounds what so many forwards take: the longest of one stage, or over a V
// as many as the longest of both.
func (q *problem) warmUp(r, forwards int) int64 {
	var times []int64
	for lane := range q.lanes {
		first := q.slot(r, lane).first
		times = append(times, q.time[opF][first:first+q.m]...)
	}
	slices.Sort(times)
	if q.lanes > 1 {
		return int64(forwards) * times[len(times)-1]
	}
	var sum int64
	for _, f := range times[len(times)-forwards:] {
		sum += f
	}
	return sum
}

// plain reports whether the microbatches of a stage, the first of which stands at
// first, are all alike, F takes memory when it starts and I and W only give back. It
// returns what F takes and what W gives.
func (q *problem) plain(first int) (whole, late int64, ok bool) {
	whole, late = q.start[opF][first], -q.end[opW][first]
	for i := first; i < first+q.m; i++ {
		for k := range passes {
			if q.time[k][i] != q.time[k][first] || q.start[k][i] != q.start[k][first] || q.end[k][i] != q.end[k][first] {
				return 0, 0, false
			}
		}
	}
	ok = whole > 0 && late >= 0 && late <= whole && q.end[opF][first] == 0 &&
		q.start[opI][first] == 0 && q.start[opW][first] == 0 && q.end[opI][first] == late-whole
	return whole, late, ok
}

// idleAfter returns how long a rank waits at least after the start of its last F. That
// microbatch still takes a trip; the work that is left besides belongs to what
// is held at that moment, which memory limits.
func (q *problem) idleAfter(r int, trip int64) int64 {
	i := q.slot(r, 0).first
	whole, late, ok := q.plain(i)
	if !ok {
		return 0
	}
	f, in, w := q.time[opF][i], q.time[opI][i], q.time[opW][i]
	var left float64 // of I and W, in the most that the limit can hold
	switch limit := float64(q.limit[r]); {
	case late == whole:
		left = float64(min(int64(q.m), q.limit[r]/whole)) * float64(in+w)
	case late == 0:
		left = float64(q.m) * float64(in+w)
	default:
		left = min(float64(q.m)*float64(in+w), limit*max(float64(in+w)/float64(whole), float64(w)/float64(late))+1)
	}
	if left > float64(trip+in+w-f) {
		return 0
	}
	return trip + in + w - f - int64(left)
}

// idleAfterV returns the same over a V, after the start of the last F of the first stage.
func (q *problem) idleAfterV(r int, trip int64) int64 {
	down, up := q.slot(r, 0).first, q.slot(r, 1).first
	a0, late0, ok0 := q.plain(down)
	a1, late1, ok1 := q.plain(up)
	if !ok0 || !ok1 || late0 == 0 || late1 == 0 {
		return 0
	}
	t := func(k op, i int) float64 { return float64(q.time[k][i]) }
	w0, w1 := t(opW, down), t(opW, up)
	i0, i1 := t(opI, down), t(opI, up)
	all := t(opF, up) + i1 + w1 + i0 + w0
	perByte := max( // of what a microbatch can have left, by what it then holds
		all/float64(a0), (all-t(opF, up))/float64(a0+a1), (w1+i0+w0)/float64(a0+late1),
		(i0+w0)/float64(a0), (w0+w1)/float64(late0+late1), w0/float64(late0), w1/float64(late1))
	left := min(float64(q.m)*all, float64(q.limit[r])*perByte+1)
	idle := float64(trip-q.time[opF][down]) + i0 + w0 - left
	return max(0, int64(idle))
}

// memoryBound bounds the span by memory: what every microbatch holds, and for how
// long, has to fit into it. With one stage per rank memory is so many places, each of
// which serves one microbatch after another.
func (q *problem) memoryBound(r int, t trip) int64 {
	trips := []int64{t.toLast, t.upper}
	var area float64
	for lane := range q.lanes {
		i := q.slot(r, lane).first
		whole, late, ok := q.plain(i)
		if !ok {
			return 0
		}
		area += float64(whole) * float64(trips[lane]+q.time[opI][i])
		area += float64(late) * float64(q.time[opW][i])
	}
	bound := int64(float64(q.m) * area / float64(q.limit[r]) * (1 - 1e-12))
	if q.lanes > 1 {
		return bound
	}
	i := q.slot(r, 0).first
	whole, late, _ := q.plain(i)
	places := min(int64(q.m), q.limit[r]/whole)
	rounds := (int64(q.m) + places - 1) / places
	in, w := q.time[opI][i], q.time[opW][i]
	if late == whole {
		return max(bound, rounds*(t.toLast+in+w))
	}
	return max(bound, rounds*(t.toLast+in)+w)
}
