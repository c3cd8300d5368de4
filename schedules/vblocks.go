package schedules

import (
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
	slot                [][passes][]int // by rank, pass and microbatch; ascending
	timeline            []timeline      // the same, by rank
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
	b := &blocks{ranks: s.Ranks, microbatches: s.Microbatches, slot: make([][passes][]int, s.Ranks), timeline: make([]timeline, s.Ranks)}
	for r := range b.slot {
		for k, first := range block(r, s.Ranks) {
			for m := range s.Microbatches {
				b.put(r, k, first+interval*m)
			}
		}
	}
	b.addWeights()
	b.compact(true)
	b.squeeze()
	b.dropWeights()
	b.compact(false)
	b.addWeights()
	b.squeeze()
	b.dropWeights()
	ranks := make(order.Order, s.Ranks)
	for r := range ranks {
		ranks[r] = b.actions(r)
	}
	return ranks
}

// put adds the next microbatch's pass.
func (b *blocks) put(rank, kind, at int) {
	b.slot[rank][kind] = append(b.slot[rank][kind], at)
	b.timeline[rank].put(at, kind)
}

// move takes a pass to another slot.
func (b *blocks) move(x pass, to int) {
	b.slot[x.rank][x.kind][x.microbatch] = to
	b.timeline[x.rank][x.slot] = graph.None
	b.timeline[x.rank].put(to, x.kind)
}

// A pass is one entry of the slots.
type pass struct{ slot, rank, kind, microbatch int }

// inOrder goes through all passes by slot, then rank. What it has come to may be
// moved to any slot before.
func (b *blocks) inOrder(yield func(pass) bool) {
	next, end := make([][passes]int, b.ranks), 0
	for _, t := range b.timeline {
		end = max(end, len(t))
	}
	for at := range end {
		for r, t := range b.timeline {
			if at >= len(t) || t[at] == graph.None {
				continue
			}
			k := int(t[at])
			m := next[r][k]
			next[r][k]++
			if !yield(pass{at, r, k, m}) {
				return
			}
		}
	}
}

// addWeights puts weight gradients into the first free slots after their input
// gradients.
func (b *blocks) addWeights() {
	for r := range b.slot {
		waiting, end := 0, len(b.timeline[r])
		for at := 0; at < end || waiting > 0; at++ {
			switch k := b.timeline[r].kind(at); {
			case k == backUp || k == backDown:
				waiting++
			case waiting > 0 && k == graph.None:
				b.put(r, passWeight, at)
				waiting--
			}
		}
	}
}

// dropWeights takes the weight gradients out again.
func (b *blocks) dropWeights() {
	for r := range b.slot {
		for _, at := range b.slot[r][passWeight] {
			b.timeline[r][at] = graph.None
		}
		b.slot[r][passWeight] = nil
		b.timeline[r].trim()
	}
}

// compact moves the passes of the ramps, before the first microbatch is back
// on rank 0 and after the last has started there, to earlier free slots where
// no rank comes to hold more than some rank has held.
func (b *blocks) compact(withWeights bool) {
	loads, limit := make([]load, b.ranks), int32(0)
	for r, t := range b.timeline {
		loads[r] = t.load(withWeights)
		for _, h := range loads[r].after {
			limit = max(limit, h.held)
		}
	}
	const warmUp, steady, coolDown = 0, 1, 2
	phase := warmUp
	for x := range b.inOrder {
		if phase == warmUp && x.kind == backDown && x.rank == 0 {
			phase = steady
		}
		moves := phase == coolDown || phase == warmUp && withWeights
		if phase == steady && x.kind == passDown && x.microbatch == b.microbatches-1 {
			phase = coolDown
		}
		if !moves {
			continue
		}
		for at := b.after(x) + 1; at < x.slot; at++ {
			if b.timeline[x.rank][at] == graph.None && loads[x.rank].move(x, at, limit) {
				b.move(x, at)
				break
			}
		}
	}
}

// after finds the last slot that a pass has to come after, or −1: of a weight
// gradient that of the one before it (see load.move).
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
	}
	if x.kind > passDown && x.kind < passWeight {
		need(x.rank, x.kind-1, x.microbatch)
	}
	return last
}

// squeeze starts every pass as early as it can be in the order that the slots
// have.
func (b *blocks) squeeze() {
	free := make([]int, b.ranks)
	for x := range b.inOrder {
		at := free[x.rank]
		if x.kind != passWeight {
			at = max(at, b.after(x)+1)
		}
		b.move(x, at)
		free[x.rank] = at + 1
	}
	for r := range b.timeline {
		b.timeline[r].trim()
	}
}

// actions lists the order of a rank, weight gradients in the free slots: of the
// second stage before the first.
func (b *blocks) actions(rank int) []order.Action {
	own := &lanes{lane: vLanes(rank, b.ranks, b.microbatches)}
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
	for _, k := range b.timeline[rank] {
		switch k := int(k); k {
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
