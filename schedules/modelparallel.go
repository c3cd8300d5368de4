package schedules

import (
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// modelParallel takes one microbatch after another through all stages and
// back, so that one rank works at a time: naive model parallelism. A rank may
// hold several stages.
func modelParallel() Schedule {
	return Schedule{
		Name: "model-parallel", Summary: "one microbatch at a time through all stages and back",
		About: "Every rank holds a part of the network, and one of them works at a time. It trains what does " +
			"not fit on one device with the least memory, and is what every pipeline is measured against.",
		Bubble: "(P-1)/P", Memory: "1", Paper: "Huang et al. 2019, GPipe, figure 2b",
		MultiStage: true, Pipelined: true, order: oneByOne,
	}
}

// ddp does not split the network: replicas of its one rank do.
func ddp() Schedule {
	return Schedule{
		Name: "ddp", Summary: "copies, whole or sharded (ZeRO, FSDP); gradients summed",
		About: "Every rank holds the network, computes on its share of the batch, and sums gradients with " +
			"the others, in buckets beside the backward. The first thing to try where the network fits on " +
			"a device; with ZeRO or FSDP, what all would hold alike is shared out.",
		Bubble: "0", Memory: "1", Paper: "Li et al. 2020, PyTorch Distributed",
		Constraint: "stages = 1", MultiStage: true, order: oneByOne,
	}
}

func oneByOne(s graph.Shape, stageRank []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	for m := range s.Microbatches {
		for stage, r := range stageRank {
			ranks[r] = append(ranks[r], order.F(stage, m))
		}
		for stage, r := range slices.Backward(stageRank) {
			ranks[r] = append(ranks[r], order.B(stage, m))
		}
	}
	return ranks
}
