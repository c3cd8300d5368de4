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
func loopedBFS() Schedule {
	return Schedule{
		Name: "looped-bfs", Summary: "all forwards of a chunk before the next chunk, then all back",
		About: "The stages are looped over the ranks as in interleaved 1F1B, but a rank finishes all " +
			"microbatches of one piece before the next. The bubble is as small and the memory is GPipe's; " +
			"with sharded parameters, a piece is gathered once each way, not once for every round.",
		Bubble: "(P-1)/(MV+P-1), M>=P", Memory: "MV", Paper: "Lamy-Poirier 2023, Breadth-First",
		Pipelined: true, Virtual: true, order: breadthFirst, place: loopedStages,
	}
}

func breadthFirst(s graph.Shape, stageRank []int32) order.Order {
	return thenReversed(forwardsByStage(s, stageRank))
}
