package search

import (
	"cmp"
	"slices"
)

// A block is a building block: it says when each F and I of one microbatch is due on
// every rank of a V. Repeated every period, passes of different microbatches never
// collide (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", section 3).
// Weight gradients have no fixed place; they fill the gaps.
type block struct {
	period int64
	due    [][operations]int64 // the start of each pass, by rank
	memory float64             // average memory of the fullest rank, as a share of its limit
}

// phases lists the passes of a microbatch that travel through the ranks: down, up, and
// back.
var phases = [4]op{opF, upF, upI, opI}

// hops holds the pauses between neighbouring ranks in each phase, in sixths of the
// period: 0, 0, 0, 0 is V-Min; 1, 0, 1, 0 is V-Half; 3, 1, 3, 1 is ZBV.
type hops [4]int64

// blocks lists building blocks of several families in turn. Families are made for the
// times of the stages, or for passes that all take the same time, whose orders are the
// most regular. They fill the limit on average, or leave a share of it for peaks.
func (q *problem) blocks() []block {
	times, even := q.meanTimes(), q.evenTimes()
	families := [][]block{
		q.family(even, 1), q.family(times, 1), q.family(times, 0.9), q.family(even, 0.8), q.family(times, 0.8),
	}
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

// family lists the different blocks with small hops: the shortest period first, then
// the most memory. If a block would hold more than a share of the limit, its period is
// stretched.
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

// at returns the time at which an operation of a rank on a microbatch is due.
func (b *block) at(r int, o op, microbatch int) int64 {
	return b.due[r][o] + int64(microbatch)*b.period
}

func (b block) equal(c block) bool { return slices.Equal(b.due, c.due) }

// meanTimes returns the average time of every kind of pass on each stage.
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

// evenTimes returns the same time for every pass.
func (q *problem) evenTimes() [3][]int64 {
	var times [3][]int64
	for k := range times {
		times[k] = slices.Repeat([]int64{1}, q.stages())
	}
	return times
}

// place makes a block: it places the passes of a microbatch one after another, each as
// early as its hop and the rank's passes of other microbatches allow. It returns false
// if the period is too short.
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
			busy := q.occupied(&b, r, phase, times)
			var ok bool
			if at, ok = busy.free(at, long, b.period); !ok {
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

// An occupation is one pass that a rank runs in every period.
type occupation struct{ due, long int64 }

// occupations lists the passes that a rank runs in every period.
type occupations []occupation

// occupied lists the passes of a rank in the phases before one.
func (q *problem) occupied(b *block, r, phase int, times [3][]int64) occupations {
	list := make(occupations, phase)
	for i, o := range phases[:phase] {
		list[i] = occupation{b.due[r][o], times[o.kind()][q.slot(r, o.lane()).stage]}
	}
	return list
}

// free returns the first time from at on when the rank can run one more pass in every
// period.
func (list occupations) free(at, long, period int64) (int64, bool) {
	for tries := 0; tries <= 2*len(list); tries++ {
		clear := true
		for _, other := range list {
			after := mod(at-other.due, period) // since the other pass started
			if after < other.long {
				at, clear = at+other.long-after, false
			} else if after+long > period {
				at, clear = at+period-after+other.long, false
			}
		}
		if clear {
			return at, true
		}
	}
	return at, false
}

func mod(a, b int64) int64 { return (a%b + b) % b }

// held estimates the average memory of the fullest rank, as a share of its limit.
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
