package schedules

import (
	"cmp"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// chimera sends the two halves of the microbatches through the ranks in
// opposite directions, each through stages of its own, so that every stage
// exists twice, as in DualPipe, but with full backwards and P microbatches at a
// time: both directions are 1F1B two slots apart, and because P is even one
// direction fills the gaps of the other (Li & Hoefler 2021, "Chimera", section 3.1).
// Units of P microbatches follow each other directly, each in the gaps of
// the unit before (section 3.5). With P = 4 and M = 4 (upward passes in lower
// case, microbatches omitted, B as long as F):
//
//	rank 0   F · F f b f b B · B
//	rank 1   · F f F f b B b B ·
//	rank 2   · f F f F B b B b ·
//	rank 3   f · f F B F B b · b
func chimera() Schedule {
	return Schedule{
		Name: "chimera", Summary: "two opposite pipelines, every stage twice, in each other's gaps",
		About: "Microbatches enter at both ends, through two copies of all stages, and each direction fills " +
			"the other's gaps: about half of 1F1B's bubble where M = P. Parameters are held twice, and " +
			"their gradients are summed over two ranks.",
		Bubble: "(P-2)/(2M+P-2), F=B, P|M", Memory: "P/2+1+min(r, P-1-r), M>=P", Paper: "Li & Hoefler 2021, Chimera",
		Constraint: "P and M even", Pipelined: true, place: oppositeCopies,
		order: func(s graph.Shape, _ []int32) order.Order { return bySlot(s, oppositeCopies(s), s.Ranks/2) },
		legal: func(s graph.Shape) error { return requireEven("chimera", s) },
	}
}

// bySlot orders forwards and backwards by time slots, where F and B take one slot each.
// A microbatch goes through all stages and back, one slot per stage, two slots after the
// microbatch before. unit microbatches form a unit, and a unit begins when the first
// microbatch of the unit before is back. Microbatches of second copies are counted
// separately.
func bySlot(s graph.Shape, at graph.Placement, unit int) order.Order {
	type slotted struct {
		slot int
		order.Action
	}
	slots := make([][]slotted, s.Ranks)
	back := 2 * at.Stages()
	for stage := range at.Stages() {
		for m := range s.Microbatches {
			r, i := at.Rank(int32(stage), int32(m)), m
			if at.Second != nil {
				i %= int(at.Half)
			}
			first := i/unit*back + 2*(i%unit)
			slots[r] = append(slots[r],
				slotted{first + stage, order.F(stage, m)}, slotted{first + back - 1 - stage, order.B(stage, m)})
		}
	}
	ranks := make(order.Order, s.Ranks)
	for r := range ranks {
		slices.SortFunc(slots[r], func(x, y slotted) int { return cmp.Compare(x.slot, y.slot) })
		for _, e := range slots[r] {
			ranks[r] = append(ranks[r], e.Action)
		}
	}
	return ranks
}

// oppositeCopies places stage s on rank s and its second copy on rank P − 1 − s.
func oppositeCopies(s graph.Shape) graph.Placement {
	down := graph.InOrder(s.Ranks).First
	up := slices.Clone(down)
	slices.Reverse(up)
	return graph.TwoCopies(down, up, s.Microbatches)
}
