package search

import (
	"math"
	"slices"
)

// lowerBound returns a lower bound on the span of any order: the largest bound of a
// single rank.
//
// A rank is busy for the sum of its passes. In addition it waits while its inputs are on
// their way through later ranks: before its first I, after all the forwards that fit in
// memory, and after its last F, when the remaining work is done. Moreover, memory holds
// a microbatch from its F to its W, which takes at least the way to the last rank and
// back.
func (q *problem) lowerBound() int64 {
	var best int64
	busy := q.busy()
	for r, t := range q.trips() {
		best = max(best, q.rankBound(r, t, busy[r]))
	}
	return best
}

// A trip holds the shortest times of any microbatch from the start of an F to the start
// of an I of one rank: from its first F to its first I, from its first F to its last I,
// and from its last F to its first I. With one stage per rank they are the same.
type trip struct{ toFirst, toLast, upper int64 }

// trips returns the trip of every rank.
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
	if most < q.m { // the last F comes after the first I, so both waits occur
		best = max(best, busy+before+after)
	}
	return best
}

// mostForwards bounds the number of forwards that a rank can run before its first I.
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
	n := (q.limit[r] - max(0, first)) / least // forwards held when another one starts
	return int(max(1, min(int64(q.lanes*q.m), n+1)))
}

// warmUp bounds the time of a number of forwards from above: with one stage the sum of
// the longest forwards, over a V all as long as the longest.
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

// uniform reports whether the microbatches of a stage are all alike, F takes memory only
// at its start, and I and W only free memory. It returns the bytes that F takes and that
// W frees. first is the index of the stage's first microbatch.
func (q *problem) uniform(first int) (whole, late int64, ok bool) {
	whole, late = q.start[opF][first], -q.end[opW][first]
	for i := first; i < first+q.m; i++ {
		for k := range passes {
			same := q.time[k][i] == q.time[k][first] &&
				q.start[k][i] == q.start[k][first] && q.end[k][i] == q.end[k][first]
			if !same {
				return 0, 0, false
			}
		}
	}
	ok = whole > 0 && late >= 0 && late <= whole && q.end[opF][first] == 0 &&
		q.start[opI][first] == 0 && q.start[opW][first] == 0 && q.end[opI][first] == late-whole
	return whole, late, ok
}

// idleAfter bounds from below how long a rank waits after the start of its last F. The
// last microbatch still takes a trip; all other remaining work belongs to microbatches
// that the rank holds at that moment, and memory limits these.
func (q *problem) idleAfter(r int, trip int64) int64 {
	i := q.slot(r, 0).first
	whole, late, ok := q.uniform(i)
	if !ok {
		return 0
	}
	f, in, w := q.time[opF][i], q.time[opI][i], q.time[opW][i]
	var left float64 // time of I and W of all microbatches that fit in the limit
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

// idleAfterV does what idleAfter does over a V, after the start of the last F of the first stage.
func (q *problem) idleAfterV(r int, trip int64) int64 {
	down, up := q.slot(r, 0).first, q.slot(r, 1).first
	a0, late0, ok0 := q.uniform(down)
	a1, late1, ok1 := q.uniform(up)
	if !ok0 || !ok1 || late0 == 0 || late1 == 0 {
		return 0
	}
	t := func(k op, i int) float64 { return float64(q.time[k][i]) }
	w0, w1 := t(opW, down), t(opW, up)
	i0, i1 := t(opI, down), t(opI, up)
	all := t(opF, up) + i1 + w1 + i0 + w0
	perByte := max( // remaining time per byte, for every state of a microbatch
		all/float64(a0), (all-t(opF, up))/float64(a0+a1), (w1+i0+w0)/float64(a0+late1),
		(i0+w0)/float64(a0), (w0+w1)/float64(late0+late1), w0/float64(late0), w1/float64(late1))
	left := min(float64(q.m)*all, float64(q.limit[r])*perByte+1)
	idle := float64(trip-q.time[opF][down]) + i0 + w0 - left
	return max(0, int64(idle))
}

// memoryBound bounds the span by memory: the bytes of all microbatches, times how long
// they are held, must fit into limit × span. With one stage per rank the limit is a
// number of places, each of which serves one microbatch after another.
func (q *problem) memoryBound(r int, t trip) int64 {
	trips := []int64{t.toLast, t.upper}
	var area float64
	for lane := range q.lanes {
		i := q.slot(r, lane).first
		whole, late, ok := q.uniform(i)
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
	whole, late, _ := q.uniform(i)
	places := min(int64(q.m), q.limit[r]/whole)
	rounds := (int64(q.m) + places - 1) / places
	in, w := q.time[opI][i], q.time[opW][i]
	if late == whole {
		return max(bound, rounds*(t.toLast+in+w))
	}
	return max(bound, rounds*(t.toLast+in)+w)
}
