package search

import (
	"math"
	"slices"
)

// bound is a lower bound on the span of every order, of any kind: the largest
// that holds for one rank.
//
// A rank is busy for the sum of its passes. Beside that it waits where what it
// needs is on its way through the ranks behind it: before its first I, once it
// has run all forwards that memory has room for, and after its last F, once it
// has run all that was left. And memory holds a microbatch from its F to its W,
// which is longer than the way to the last rank and back.
func (q *problem) bound() int64 {
	var best int64
	trip := q.trips()
	for r := range q.p {
		best = max(best, q.rankBound(r, trip[r]))
	}
	return best
}

// trips is for every rank the least time from the start of an F to the start of
// the I of the same microbatch.
func (q *problem) trips() []int64 {
	least := slices.Repeat([]int64{math.MaxInt64}, q.p)
	for m := range q.m {
		var below int64
		for s := q.p - 1; s >= 0; s-- {
			i := s*q.m + m
			least[s] = min(least[s], below+q.time[letterF][i])
			if s > 0 {
				below += q.time[letterF][i] + q.time[letterI][i] + 2*q.latency[s-1]
			}
		}
	}
	return least
}

func (q *problem) rankBound(r int, trip int64) int64 {
	from, to := r*q.m, (r+1)*q.m
	var busy, rest int64
	leastRest := int64(math.MaxInt64)
	for i := from; i < to; i++ {
		tail := q.time[letterI][i] + q.time[letterW][i]
		busy += q.time[letterF][i] + tail
		rest = max(rest, tail)
		leastRest = min(leastRest, tail)
	}
	forwards := slices.Clone(q.time[letterF][from:to])
	slices.Sort(forwards)
	most := q.mostForwards(r)
	var warmUp int64
	for _, f := range forwards[q.m-most:] {
		warmUp += f
	}
	before := max(0, trip-warmUp)
	after := q.idleAfter(r, trip)
	best := max(busy+before, busy+after, trip+leastRest)
	if most < q.m { // the last F comes after the first I, so both waits are there
		best = max(best, busy+before+after)
	}
	return max(best, q.slots(r, trip))
}

// mostForwards is how many forwards a rank can run at most before its first I.
func (q *problem) mostForwards(r int) int {
	least, first := int64(math.MaxInt64), int64(math.MaxInt64)
	for i := r * q.m; i < (r+1)*q.m; i++ {
		least, first = min(least, q.net(letterF, i)), min(first, q.start[letterF][i])
	}
	if least <= 0 {
		return q.m
	}
	n := (q.limit[r] - max(0, first)) / least // that are there when another starts
	return int(max(1, min(int64(q.m), n+1)))
}

// plain reports whether the microbatches of a stage, the first of which stands at
// first, are all alike, F takes memory when it starts and I and W only give back. It
// returns what F takes and what W gives.
func (q *problem) plain(first int) (whole, late int64, ok bool) {
	whole, late = q.start[letterF][first], -q.end[letterW][first]
	for i := first; i < first+q.m; i++ {
		for k := range passes {
			if q.time[k][i] != q.time[k][first] || q.start[k][i] != q.start[k][first] || q.end[k][i] != q.end[k][first] {
				return 0, 0, false
			}
		}
	}
	ok = whole > 0 && late >= 0 && late <= whole && q.end[letterF][first] == 0 &&
		q.start[letterI][first] == 0 && q.start[letterW][first] == 0 && q.end[letterI][first] == late-whole
	return whole, late, ok
}

// idleAfter is how long a rank waits at least after the start of its last F. That
// microbatch still takes a trip; the work that is left besides belongs to what
// is held at that moment, which memory limits.
func (q *problem) idleAfter(r int, trip int64) int64 {
	whole, late, ok := q.plain(r * q.m)
	if !ok {
		return 0
	}
	i := r * q.m
	f, in, w := q.time[letterF][i], q.time[letterI][i], q.time[letterW][i]
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

// slots bounds the span by memory: it is so many slots, each of which serves one
// microbatch after another.
func (q *problem) slots(r int, trip int64) int64 {
	whole, late, ok := q.plain(r * q.m)
	if !ok {
		return 0
	}
	i := r * q.m
	in, w := q.time[letterI][i], q.time[letterW][i]
	rounds := func(slots int64) int64 { return (int64(q.m) + slots - 1) / slots }
	n := min(int64(q.m), q.limit[r]/whole)
	bound := rounds(n)*(trip+in) + w
	if late == whole {
		bound = rounds(n) * (trip + in + w)
	}
	area := float64(q.m) * (float64(whole)*float64(trip+in) + float64(late)*float64(w)) / float64(q.limit[r])
	return max(bound, int64(area*(1-1e-12)))
}
