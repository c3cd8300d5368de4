package schedules

import (
	"cmp"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// vMin and vHalf hold a third and a half of 1F1B's activations, for some
// bubble: both are a building block, the slots of one microbatch's passes on
// every rank of a V, repeated every 6 slots and then compacted (Qi et al. 2024,
// "Pipeline Parallelism with Controllable Memory", section 3; the order does
// not depend on costs). A block of V-Min for P = 4, f and i of the second stage:
//
//	rank 0   F · · · · · · f i · · · · · · I
//	rank 1   · F · · · · f · · i · · · · I ·
//	rank 2   · · F · · f · · · · i · · I · ·
//	rank 3   · · · F f · · · · · · i I · · ·
func vMin() Schedule {
	return Schedule{
		Name: "v-min", Summary: "the V of zbv with a third of the activations of 1F1B",
		About: "The least memory of the V-shaped schedules: about a third of 1F1B's activations. Its bubble " +
			"is a third less than 1F1B's where F, I and W are equal; it grows where they are not.",
		Bubble: "at most (4P-5)F/T of span, F=I=W, M>=2P-1, P>1", Memory: "at most 2⌊(P+4)/3⌋", Paper: "Qi et al. 2024, Controllable Memory",
		Constraint: "2 stages per rank", Pipelined: true, PerRank: 2, order: fromBlocks(vMinBlock), place: vShape,
	}
}

func vMinBlock(r, p int) [4]int {
	gap := 0
	if p%3 == 0 {
		gap = 2 // or passes of two microbatches would collide
	}
	return [4]int{r, 2*p - 1 - r, 2*p + gap + r, 4*p + gap - 1 - r}
}

// vHalf differs from vMin in passes two slots apart on the way down.
func vHalf() Schedule {
	return Schedule{
		Name: "v-half", Summary: "the V of zbv with half the activations of 1F1B",
		About: "Passes are laid out so that about half of 1F1B's activations are held at a time, for about " +
			"half of its bubble. Use it where memory, rather than time, decides what can be trained.",
		Bubble: "at most (3P-4)F/T of span, F=I=W, M>=2P-1, P>1", Memory: "at most 2⌊(P+2)/2⌋", Paper: "Qi et al. 2024, Controllable Memory",
		Constraint: "2 stages per rank", Pipelined: true, PerRank: 2, order: fromBlocks(vHalfBlock), place: vShape,
	}
}

func vHalfBlock(r, p int) [4]int {
	gap := 0
	if p%2 == 0 {
		gap = 3
	}
	return [4]int{2 * r, 3*p - 2 - r, 3*p + gap - 1 + 2*r, 6*p + gap - 2 - r}
}

// The passes of a microbatch on a rank, each after the one before: down the V
// and up, then back. Weight gradients count over both stages.
const (
	passDown = iota
	passUp
	backUp
	backDown
	passWeight
	passes
)

// blocks holds the slots of every pass while an order is made of blocks.
type blocks struct {
	ranks, microbatches int
	slot                [][passes][]int // by rank, pass and microbatch
}

// fromBlocks orders by a building block, given by rank.
func fromBlocks(block func(r, p int) [4]int) func(graph.Shape, []int32) order.Order {
	return func(s graph.Shape, _ []int32) order.Order { return repeated(s, block) }
}

// repeated repeats a building block and compacts it: once with weight gradients
// in the free slots, to fill the ramps, and once more without, after which they
// take what slots are free.
func repeated(s graph.Shape, block func(r, p int) [4]int) order.Order {
	const interval = 6 // F, I and W of two stages
	b := &blocks{ranks: s.Ranks, microbatches: s.Microbatches, slot: make([][passes][]int, s.Ranks)}
	for r := range b.slot {
		for k, first := range block(r, s.Ranks) {
			for m := range s.Microbatches {
				b.slot[r][k] = append(b.slot[r][k], first+interval*m)
			}
		}
	}
	for _, withWeights := range []bool{true, false} {
		if withWeights {
			b.addWeights()
		}
		b.compact(withWeights)
		if !withWeights {
			b.addWeights()
		}
		b.squeeze()
		for r := range b.slot {
			b.slot[r][passWeight] = nil
		}
	}
	ranks := make(order.Order, s.Ranks)
	for r := range ranks {
		ranks[r] = b.actions(r)
	}
	return ranks
}

// A pass is one entry of the slots.
type pass struct{ slot, rank, kind, microbatch int }

// inOrder lists all passes by slot, then rank, then kind.
func (b *blocks) inOrder() []pass {
	var all []pass
	for r := range b.slot {
		for k, slots := range b.slot[r] {
			for m, at := range slots {
				all = append(all, pass{at, r, k, m})
			}
		}
	}
	slices.SortFunc(all, func(x, y pass) int {
		return cmp.Or(cmp.Compare(x.slot, y.slot), cmp.Compare(x.rank, y.rank), cmp.Compare(x.kind, y.kind))
	})
	return all
}

// timeline lists the kind of pass in every slot of a rank, or None.
func (b *blocks) timeline(rank int) []int {
	end := 0
	for _, slots := range b.slot[rank] {
		for _, at := range slots {
			end = max(end, at+1)
		}
	}
	kinds := slices.Repeat([]int{graph.None}, end)
	for k, slots := range b.slot[rank] {
		for _, at := range slots {
			kinds[at] = k
		}
	}
	return kinds
}

// addWeights puts weight gradients into the first free slots after their input
// gradients.
func (b *blocks) addWeights() {
	for r := range b.slot {
		waiting, timeline := 0, b.timeline(r)
		for at := 0; at < len(timeline) || waiting > 0; at++ {
			switch {
			case at < len(timeline) && (timeline[at] == backUp || timeline[at] == backDown):
				waiting++
			case waiting > 0 && (at >= len(timeline) || timeline[at] == graph.None):
				b.slot[r][passWeight] = append(b.slot[r][passWeight], at)
				waiting--
			}
		}
	}
}

// peak counts the activations that a rank holds at most. Without weight
// gradients of their own, they run in the first free slots.
func (b *blocks) peak(rank int, withWeights bool) int {
	held, waiting, peak := 0, 0, 0
	for _, k := range b.timeline(rank) {
		switch {
		case k == passDown || k == passUp:
			held++
		case k == backUp || k == backDown:
			waiting++
		case k == passWeight || !withWeights && waiting > 0:
			held--
			waiting--
		}
		peak = max(peak, held)
	}
	return peak
}

// compact moves the passes of the ramps, before the first microbatch is back
// on rank 0 and after the last has started there, to earlier free slots where
// no rank comes to hold more than some rank has held.
func (b *blocks) compact(withWeights bool) {
	limit := 0
	for r := range b.slot {
		limit = max(limit, b.peak(r, withWeights))
	}
	taken := make([]map[int]bool, b.ranks)
	for r := range taken {
		taken[r] = map[int]bool{}
	}
	const warmUp, steady, coolDown = 0, 1, 2
	phase := warmUp
	for _, x := range b.inOrder() {
		if phase == warmUp && x.kind == backDown && x.rank == 0 {
			phase = steady
		}
		moves := phase == coolDown || phase == warmUp && withWeights
		if phase == steady && x.kind == passDown && x.microbatch == b.microbatches-1 {
			phase = coolDown
		}
		own := &b.slot[x.rank][x.kind][x.microbatch]
		if moves {
			for at := b.after(x) + 1; at < x.slot; at++ {
				if taken[x.rank][at] {
					continue
				}
				if *own = at; b.peak(x.rank, withWeights) <= limit {
					break
				}
				*own = x.slot
			}
		}
		taken[x.rank][*own] = true
	}
}

// after finds the last slot that a pass has to come after, or −1.
func (b *blocks) after(x pass) int {
	last := -1
	need := func(rank, kind, microbatch int) {
		if rank >= 0 && rank < b.ranks && microbatch >= 0 {
			last = max(last, b.slot[rank][kind][microbatch])
		}
	}
	need(x.rank, x.kind, x.microbatch-1)
	switch x.kind {
	case passDown, backUp:
		need(x.rank-1, x.kind, x.microbatch)
	case passUp, backDown:
		need(x.rank+1, x.kind, x.microbatch)
	case passWeight:
		back := slices.Concat(b.slot[x.rank][backUp], b.slot[x.rank][backDown])
		slices.Sort(back)
		return max(last, back[x.microbatch])
	}
	if x.kind > passDown {
		need(x.rank, x.kind-1, x.microbatch)
	}
	return last
}

// squeeze starts every pass as early as it can be in the order that the slots
// have.
func (b *blocks) squeeze() {
	free := make([]int, b.ranks)
	for _, x := range b.inOrder() {
		at := free[x.rank]
		if x.kind != passWeight {
			at = max(at, b.after(x)+1)
		}
		b.slot[x.rank][x.kind][x.microbatch], free[x.rank] = at, at+1
	}
}

// actions lists the order of a rank, weight gradients in the free slots: of the
// second stage before the first.
func (b *blocks) actions(rank int) []order.Action {
	own := &lanes{lane: [2]lane{
		{stage: int32(rank), microbatches: int32(b.microbatches)},
		{stage: int32(2*b.ranks - 1 - rank), microbatches: int32(b.microbatches)},
	}}
	waiting := [2]int{}
	weight := func() {
		for l := 1; l >= 0; l-- {
			if waiting[l] > 0 {
				own.do(1, l, graph.WeightGradient)
				waiting[l]--
				return
			}
		}
	}
	for _, k := range b.timeline(rank) {
		switch k {
		case passDown, passUp:
			own.do(1, k-passDown, graph.Forward)
		case backUp, backDown:
			own.do(1, backDown-k, graph.InputGradient)
			waiting[backDown-k]++
		default:
			weight()
		}
	}
	for waiting[0]+waiting[1] > 0 {
		weight()
	}
	return own.actions
}
