package schedules

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// hw4 is the pipeline of CMU's course 11-868, assignment 4, as PyTorch really
// runs it: the forwards overlap by clock cycles, as in torchgpipe, but autograd
// issues the backwards from one queue, in exactly the reverse order, and copies
// between devices block, so that backwards run one at a time.
//
//	rank 0   F0 F1 F2 F3 ·  ·  ·  B3 ·  B2 ·  B1 B0
//	rank 1   ·  F0 F1 F2 F3 B3 B2 ·  B1 ·  B0 ·  ·    (B as long as F)
//
// A rank may hold several stages, as the course's placement of GPT-2 does.
func hw4(s graph.Shape, stageRank []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	for _, cycle := range ClockCycles(s.Microbatches, len(stageRank)) {
		for _, c := range cycle {
			r := stageRank[c.Stage]
			ranks[r] = append(ranks[r], order.Action{Kind: graph.Forward, Stage: int32(c.Stage), Microbatch: int32(c.Microbatch)})
		}
	}
	for r, forwards := range ranks {
		for _, a := range slices.Backward(forwards) {
			ranks[r] = append(ranks[r], order.Action{Kind: graph.Backward, Stage: a.Stage, Microbatch: a.Microbatch})
		}
	}
	return ranks
}
