package schedules

import (
	"cmp"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// chimera sends the two halves of the microbatches through the ranks in
// opposite directions, each through stages of its own, so that every stage is
// there twice, as in DualPipe, but with full backwards and P microbatches at a
// time: both directions are 1F1B two slots apart, and because P is even one
// falls into the gaps of the other (Li & Hoefler 2021, "Chimera", section 3.1).
// Units of P microbatches follow each other directly, the next in the gaps of
// the one before (section 3.5). With P = 4 and M = 4 (what goes up in lower
// case, microbatches left out, B as long as F):
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
		Constraint: "P and M even", Pipelined: true, order: chimeraOrder, place: opposite,
		legal: func(s graph.Shape) error { return evenShape("chimera", s) },
	}
}

func chimeraOrder(s graph.Shape, _ []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	for r := range ranks {
		ranks[r] = chimeraRank(r, s.Ranks, s.Microbatches)
	}
	return ranks
}

// chimeraRank orders the passes of one rank by the slots that they fill.
func chimeraRank(r, p, m int) []order.Action {
	var all []slotted
	for direction, stage := range []int{r, p - 1 - r} {
		for i := range m / 2 {
			unit, k := i/(p/2), i%(p/2)
			first, microbatch := 2*p*unit+2*k, direction*m/2+i
			all = append(all,
				slotted{first + stage, order.F(stage, microbatch)},
				slotted{first + 2*p - 1 - stage, order.B(stage, microbatch)})
		}
	}
	return bySlot(all)
}

// A slotted action knows the slot of time that it fills.
type slotted struct {
	slot int
	order.Action
}

// bySlot lists actions by their slots.
func bySlot(all []slotted) []order.Action {
	slices.SortFunc(all, func(x, y slotted) int { return cmp.Compare(x.slot, y.slot) })
	actions := make([]order.Action, len(all))
	for i, e := range all {
		actions[i] = e.Action
	}
	return actions
}

// opposite places the second copy of stage s on rank P − 1 − s.
func opposite(s graph.Shape) graph.Placement {
	down := graph.InOrder(s.Ranks).First
	up := slices.Clone(down)
	slices.Reverse(up)
	return graph.TwoCopies(down, up, s.Microbatches)
}
