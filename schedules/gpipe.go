package schedules

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// gpipe runs all forwards, then all backwards, first in, first out, as
// PyTorch does (Huang et al. 2019, "GPipe", figure 2c). It also serves ranks
// that hold several stages: forwards by stage, backwards by stage reversed.
func gpipe() Schedule {
	return Schedule{
		Name: "gpipe", Summary: "all forwards, then all backwards, first in, first out",
		About: "A batch is cut into microbatches that follow each other through the stages, all forwards " +
			"before any backward. It is the simplest pipeline; a rank keeps the activations of every " +
			"microbatch, so more of them shrink the bubble and cost memory.",
		Bubble: "(P-1)/(M+P-1)", Memory: "M", Paper: "Huang et al. 2019, GPipe",
		MultiStage: true, Pipelined: true, order: gpipeOrder,
	}
}

func gpipeOrder(s graph.Shape, stageRank []int32) order.Order {
	ranks := forwardsByStage(s, stageRank)
	for stage, r := range slices.Backward(stageRank) {
		for m := range s.Microbatches {
			ranks[r] = append(ranks[r], order.B(stage, m))
		}
	}
	return ranks
}

// forwardsByStage takes all microbatches through a stage before the next.
func forwardsByStage(s graph.Shape, stageRank []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	for stage, r := range stageRank {
		for m := range s.Microbatches {
			ranks[r] = append(ranks[r], order.F(stage, m))
		}
	}
	return ranks
}

// thenReversed lets every rank's forwards be followed by their backwards, in
// exactly the reverse order.
func thenReversed(ranks order.Order) order.Order {
	for r, forwards := range ranks {
		for _, a := range slices.Backward(forwards) {
			ranks[r] = append(ranks[r], order.B(int(a.Stage), int(a.Microbatch)))
		}
	}
	return ranks
}
