package schedules

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// loopedBFS takes all microbatches through a chunk before the next: breadth
// first. Backwards go from the last chunk and the last microbatch to the first
// (Lamy-Poirier 2023, "Breadth-First Pipeline Parallelism", figure 2). It has
// the interleaved schedule's bubble and GPipe's memory, and needs every chunk's
// parameters once each way, which suits parameters that are sharded.
//
//	P = 2, V = 2:
//	rank 0: 0F0 0F1 2F0 2F1 2B1 2B0 0B1 0B0
//	rank 1: 1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0
func loopedBFS(s graph.Shape, stageRank []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	for stage, r := range stageRank {
		ranks[r] = appendAll(ranks[r], graph.Forward, stage, s.Microbatches)
	}
	for r, forwards := range ranks {
		for i := len(forwards) - 1; i >= 0; i-- {
			ranks[r] = append(ranks[r], order.Action{Kind: graph.Backward, Stage: forwards[i].Stage, Microbatch: forwards[i].Microbatch})
		}
	}
	return ranks
}
