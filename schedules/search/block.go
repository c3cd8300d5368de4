package search

import (
	"cmp"
	"slices"
)

// A block says when each F and I of one microbatch is due on every rank of a V.
// Repeated every period, passes of different microbatches never meet (Qi et al. 2024,
// "Pipeline Parallelism with Controllable Memory", section 3, where it is a building
// block). Weight gradients have no place of their own; they fill what is left.
type block struct {
	period int64
	due    [][operations]int64 // when each starts, by rank
	memory float64             // what is held on average on the fullest rank, as a share of its limit
}

// phases lists the ways of a microbatch through the ranks: down, up, and back.
var phases = [4]op{opF, upF, upI, opI}

// hops holds the pauses between neighbouring ranks in each phase, in sixths of the
// period: all 0 is V-Min; 1, 0, 1, 0 is V-Half; 3, 1, 3, 1 is ZBV.
type hops [4]int64

// blocks lists building blocks, by families that take turns: for the times of the
// stages, and for passes that all take the same time, whose orders are the most
// regular; filling the limit on average, or keeping some of it for when more is held.
func (q *problem) blocks() []block {
	times, even := q.meanTimes(), q.evenTimes()
	families := [][]block{q.family(even, 1), q.family(times, 1), q.family(times, 0.9), q.family(even, 0.8), q.family(times, 0.8)}
	var list []block
	for n := range len(families[0]) + len(families[1]) {
		for _, family := range families {
			if n < len(family) {
				list = append(list, family[n])
			}
		}
	}
	return list
}

// family lists the blocks with all hops up to a few, without those that repeat
// another: the shortest period first, and of equal ones the most memory. Where a
// block would hold more than a share of the limit, its period is longer.
func (q *problem) family(times [3][]int64, share float64) []block {
	const most = 4
	var list []block
	for n := range int64(most * most * most * most) {
		h := hops{n % most, n / most % most, n / (most * most) % most, n / (most * most * most)}
		b, ok := q.place(times, h, 1)
		if ok && b.memory > share {
			b, ok = q.place(times, h, b.memory/share)
		}
		if ok && !slices.ContainsFunc(list, b.equal) {
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.period, b.period), cmp.Compare(b.memory, a.memory))
	})
	return list
}

// at returns when a rank should start an operation on a microbatch.
func (b *block) at(r int, o op, microbatch int) int64 {
	return b.due[r][o] + int64(microbatch)*b.period
}

func (b block) equal(c block) bool { return slices.Equal(b.due, c.due) }

// meanTimes returns what a pass of every kind takes on average on each stage.
func (q *problem) meanTimes() [3][]int64 {
	var times [3][]int64
	for k := range passes {
		for s := range q.stages() {
			var sum int64
			for _, t := range q.time[k][s*q.m : (s+1)*q.m] {
				sum += t
			}
			times[k] = append(times[k], sum/int64(q.m))
		}
	}
	return times
}

// evenTimes lets every pass take the same time.
func (q *problem) evenTimes() [3][]int64 {
	var times [3][]int64
	for k := range times {
		times[k] = slices.Repeat([]int64{1}, q.stages())
	}
	return times
}

// place puts the passes of a microbatch one after another, each as early as its hop
// and what the rank does for other microbatches allow; false where the period is too
// short.
func (q *problem) place(times [3][]int64, h hops, stretch float64) (block, bool) {
	b := block{due: make([][operations]int64, q.p)}
	for r := range q.p {
		b.period = max(b.period, q.perMicrobatch(times, r))
	}
	hop := b.period / 6
	b.period = int64(float64(b.period) * stretch)
	if b.period == 0 {
		return b, false
	}
	var at int64
	for phase, o := range phases {
		for n := range q.p {
			r := n
			if phase%2 == 1 {
				r = q.p - 1 - n
			}
			if n > 0 {
				at += h[phase] * hop
			}
			own := q.slot(r, o.lane())
			long := times[o.kind()][own.stage]
			var ok bool
			if at, ok = b.free(r, phase, at, long, times, q); !ok {
				return b, false
			}
			b.due[r][o] = at
			at += long
			if o.kind() == opF {
				at += own.toAfter
			} else {
				at += own.toBefore
			}
		}
	}
	b.memory = q.held(b, times)
	return b, true
}

// perMicrobatch returns the work of a rank for one microbatch.
func (q *problem) perMicrobatch(times [3][]int64, r int) int64 {
	var sum int64
	for lane := range q.lanes {
		for k := range passes {
			sum += times[k][q.slot(r, lane).stage]
		}
	}
	return sum
}

// free returns the first time from at on when a rank can run a pass in every period,
// beside those of the phases before.
func (b *block) free(r, phase int, at, long int64, times [3][]int64, q *problem) (int64, bool) {
	for tries := 0; tries <= 2*phase; tries++ {
		clear := true
		for _, o := range phases[:phase] {
			other := times[o.kind()][q.slot(r, o.lane()).stage]
			after := mod(at-b.due[r][o], b.period) // since the other one started
			if after < other {
				at, clear = at+other-after, false
			} else if after+long > b.period {
				at, clear = at+b.period-after+other, false
			}
		}
		if clear {
			return at, true
		}
	}
	return at, false
}

func mod(a, b int64) int64 { return (a%b + b) % b }

// held estimates what the fullest rank holds on average.
func (q *problem) held(b block, times [3][]int64) float64 {
	var most float64
	for r := range q.p {
		var area float64
		for lane := range q.lanes {
			own := q.slot(r, lane)
			f, i := op(3*lane)+opF, op(3*lane)+opI
			long := b.due[r][i] + times[opI][own.stage] - b.due[r][f]
			held := q.net(opF, own.first)
			area += float64(held)*float64(long) + float64(held+q.net(opI, own.first))*float64(times[opW][own.stage])
		}
		most = max(most, area/float64(b.period)/float64(max(1, q.limit[r])))
	}
	return most
}
