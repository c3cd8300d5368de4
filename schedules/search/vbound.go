package search

import "math"

// lowerBound is a span that no order is below.
func (q *problem) lowerBound() int64 {
	if q.lanes > 1 {
		return q.vBound()
	}
	return q.bound()
}

// vBound is a lower bound on the span of every order of a V, of any kind: the
// largest that holds for one rank. It counts as bound does: a rank's work, beside
// which it waits before its first I and after its last F for what is on its way,
// and the time for which memory holds every microbatch.
func (q *problem) vBound() int64 {
	var best int64
	for r := range q.p {
		best = max(best, q.vRankBound(r))
	}
	return best
}

// vTrips is the least time, over all microbatches, from the start of a rank's first
// F to that of its first I, to that of its last I, and from the start of its second F
// to its first I.
func (q *problem) vTrips(r int) (toFirst, toLast, upper int64) {
	toFirst, toLast, upper = math.MaxInt64, math.MaxInt64, math.MaxInt64
	low, high := r, 2*q.p-1-r
	for m := range q.m {
		var at, upStart, firstI int64 // since the start of the first F
		for s := low; s < q.stages(); s++ {
			if s == high {
				upStart = at
			}
			at += q.time[letterF][s*q.m+m]
			if s+1 < q.stages() {
				at += q.latency[s]
			}
		}
		for s := q.stages() - 1; s > low; s-- {
			if s == high {
				firstI = at
			}
			at += q.time[letterI][s*q.m+m] + q.latency[s-1]
		}
		toFirst, toLast, upper = min(toFirst, firstI), min(toLast, at), min(upper, firstI-upStart)
	}
	return toFirst, toLast, upper
}

func (q *problem) vRankBound(r int) int64 {
	toFirst, toLast, upper := q.vTrips(r)
	down, up := q.seat(r, 0).first, q.seat(r, 1).first
	var busy int64
	leastRest, longF := int64(math.MaxInt64), int64(0)
	for m := range q.m {
		for k := range passes {
			busy += q.time[k][down+m] + q.time[k][up+m]
		}
		leastRest = min(leastRest, q.time[letterI][down+m]+q.time[letterW][down+m])
		longF = max(longF, q.time[letterF][down+m], q.time[letterF][up+m])
	}
	most := q.mostVForwards(r)
	before := max(0, toFirst-int64(most)*longF)
	after := q.vIdleAfter(r, toLast)
	best := max(busy+before, busy+after, toLast+leastRest)
	if most < q.m { // the last F comes after the first I, so both waits are there
		best = max(best, busy+before+after)
	}
	return max(best, q.vArea(r, toLast, upper))
}

// mostVForwards is how many forwards of both stages a rank can run at most before
// its first I.
func (q *problem) mostVForwards(r int) int {
	least, first := int64(math.MaxInt64), int64(math.MaxInt64)
	for lane := range q.lanes {
		from := q.seat(r, lane).first
		for i := from; i < from+q.m; i++ {
			least, first = min(least, q.net(letterF, i)), min(first, q.start[letterF][i])
		}
	}
	if least <= 0 {
		return 2 * q.m
	}
	n := (q.limit[r] - max(0, first)) / least // that are there when another starts
	return int(max(1, min(int64(2*q.m), n+1)))
}

// vIdleAfter is how long a rank waits at least after the start of its last first F:
// its microbatch still takes a trip, and the work that is left besides belongs to
// what is held then.
func (q *problem) vIdleAfter(r int, toLast int64) int64 {
	down, up := q.seat(r, 0).first, q.seat(r, 1).first
	a0, late0, ok0 := q.plain(down)
	a1, late1, ok1 := q.plain(up)
	if !ok0 || !ok1 || late0 == 0 || late1 == 0 {
		return 0
	}
	t := func(k, i int) float64 { return float64(q.time[k][i]) }
	w0, w1 := t(letterW, down), t(letterW, up)
	i0, i1 := t(letterI, down), t(letterI, up)
	all := t(letterF, up) + i1 + w1 + i0 + w0
	perByte := max( // of what a microbatch can have left, by what it then holds
		all/float64(a0), (all-t(letterF, up))/float64(a0+a1), (w1+i0+w0)/float64(a0+late1),
		(i0+w0)/float64(a0), (w0+w1)/float64(late0+late1), w0/float64(late0), w1/float64(late1))
	left := min(float64(q.m)*all, float64(q.limit[r])*perByte+1)
	idle := float64(toLast-q.time[letterF][down]) + i0 + w0 - left
	return max(0, int64(idle))
}

// vArea bounds the span by memory: what every microbatch holds, and for how long,
// has to have room in it.
func (q *problem) vArea(r int, toLast, upper int64) int64 {
	down, up := q.seat(r, 0).first, q.seat(r, 1).first
	a0, late0, ok0 := q.plain(down)
	a1, late1, ok1 := q.plain(up)
	if !ok0 || !ok1 {
		return 0
	}
	area := float64(a0)*float64(toLast+q.time[letterI][down]) + float64(late0)*float64(q.time[letterW][down]) +
		float64(a1)*float64(upper+q.time[letterI][up]) + float64(late1)*float64(q.time[letterW][up])
	return int64(float64(q.m) * area / float64(q.limit[r]) * (1 - 1e-12))
}
