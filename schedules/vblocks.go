package schedules

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// vMin holds a third of 1F1B's activations and vHalf a half, at the price of a bubble.
// Both repeat a building block, the slots of one microbatch's passes on every rank of a
// V, every 6 slots, and then compact the result (Qi et al. 2024, "Pipeline Parallelism
// with Controllable Memory", section 3; the order does not depend on costs). A block of
// V-Min for P = 4, with f and i of the second stage:
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
		Bubble: "at most (4P-5)F/T of span, F=I=W, M>=2P-1, P>1", Memory: "at most 2⌊(P+4)/3⌋",
		Paper:      "Qi et al. 2024, Controllable Memory",
		Constraint: "2 stages per rank", Pipelined: true, PerRank: 2, order: fromBlock(vMinBlock), place: vShape,
	}
}

func vMinBlock(r, p int) [4]int {
	gap := 0
	if p%3 == 0 {
		gap = 2 // otherwise passes of two microbatches collide
	}
	return [4]int{r, 2*p - 1 - r, 2*p + gap + r, 4*p + gap - 1 - r}
}

// vHalf describes vMin with two slots between passes on the way down.
func vHalf() Schedule {
	return Schedule{
		Name: "v-half", Summary: "the V of zbv with half the activations of 1F1B",
		About: "Passes are laid out so that about half of 1F1B's activations are held at a time, for about " +
			"half of its bubble. Use it where memory, rather than time, decides what can be trained.",
		Bubble: "at most (3P-4)F/T of span, F=I=W, M>=2P-1, P>1", Memory: "at most 2⌊(P+2)/2⌋",
		Paper:      "Qi et al. 2024, Controllable Memory",
		Constraint: "2 stages per rank", Pipelined: true, PerRank: 2, order: fromBlock(vHalfBlock), place: vShape,
	}
}

func vHalfBlock(r, p int) [4]int {
	gap := 0
	if p%2 == 0 {
		gap = 3
	}
	return [4]int{2 * r, 3*p - 2 - r, 3*p + gap - 1 + 2*r, 6*p + gap - 2 - r}
}

// The passes of a microbatch on a rank, in order: down the V and up, then back the same
// way. Weight gradients of both stages are one kind.
const (
	passDown = iota
	passUp
	backUp
	backDown
	passWeight
	passes
)

// blocks holds the slots of every pass while an order is built from blocks.
type blocks struct {
	ranks, microbatches int
	slot                [][passes][]int // by rank, pass and microbatch; ascending
	timeline            []timeline      // the same, by rank
}

// fromBlock orders by a building block: block returns the slots on rank r of p.
func fromBlock(block func(r, p int) [4]int) func(graph.Shape, []int32) order.Order {
	return func(s graph.Shape, _ []int32) order.Order { return repeatBlock(s, block) }
}

// repeatBlock repeats a building block and compacts the result: once with weight
// gradients in the free slots, to fill the ramps, and once without, after which weight
// gradients take the remaining free slots.
func repeatBlock(s graph.Shape, block func(r, p int) [4]int) order.Order {
	const interval = 6 // F, I and W of two stages
	b := &blocks{
		ranks: s.Ranks, microbatches: s.Microbatches,
		slot: make([][passes][]int, s.Ranks), timeline: make([]timeline, s.Ranks),
	}
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

// put adds a pass of the next microbatch.
func (b *blocks) put(rank, kind, at int) {
	b.slot[rank][kind] = append(b.slot[rank][kind], at)
	b.timeline[rank].put(at, kind)
}

// move moves a pass to another slot.
func (b *blocks) move(x pass, to int) {
	b.slot[x.rank][x.kind][x.microbatch] = to
	b.timeline[x.rank][x.slot] = graph.None
	b.timeline[x.rank].put(to, x.kind)
}

// A pass is one entry of the slots.
type pass struct{ slot, rank, kind, microbatch int }

// inOrder yields all passes by slot, then rank. The caller may move a pass that was
// yielded to an earlier slot.
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

// dropWeights removes the weight gradients.
func (b *blocks) dropWeights() {
	for r := range b.slot {
		for _, at := range b.slot[r][passWeight] {
			b.timeline[r][at] = graph.None
		}
		b.slot[r][passWeight] = nil
		b.timeline[r].trim()
	}
}

// compact moves the passes of the ramps to earlier free slots: passes before the first
// microbatch is back on rank 0, and passes after the last has started there. A move must
// not make any rank hold more than the fullest rank held before.
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
		for at := b.lastNeeded(x) + 1; at < x.slot; at++ {
			if b.timeline[x.rank][at] == graph.None && loads[x.rank].move(x, at, limit) {
				b.move(x, at)
				break
			}
		}
	}
}

// lastNeeded returns the latest slot of the passes that a pass must follow, or −1. A
// weight gradient only follows the one before it (see load.move).
func (b *blocks) lastNeeded(x pass) int {
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

// squeeze starts every pass as early as possible without changing the order.
func (b *blocks) squeeze() {
	free := make([]int, b.ranks)
	for x := range b.inOrder {
		at := free[x.rank]
		if x.kind != passWeight {
			at = max(at, b.lastNeeded(x)+1)
		}
		b.move(x, at)
		free[x.rank] = at + 1
	}
	for r := range b.timeline {
		b.timeline[r].trim()
	}
}

// actions lists the order of a rank, with weight gradients in the free slots: those of
// the second stage before those of the first.
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
