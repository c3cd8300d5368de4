package schedules

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// modelParallel takes one microbatch after another through all stages and
// back, so that one rank works at a time: naive model parallelism. A rank may
// hold several stages.
func modelParallel(s graph.Shape, stageRank []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	for m := range int32(s.Microbatches) {
		for stage, r := range stageRank {
			ranks[r] = append(ranks[r], order.Action{Kind: graph.Forward, Stage: int32(stage), Microbatch: m})
		}
		for stage := len(stageRank) - 1; stage >= 0; stage-- {
			r := stageRank[stage]
			ranks[r] = append(ranks[r], order.Action{Kind: graph.Backward, Stage: int32(stage), Microbatch: m})
		}
	}
	return ranks
}
