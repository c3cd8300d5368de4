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

// ddp runs the whole network on one rank. Replicas of that rank share the batch.
func ddp() Schedule {
	return Schedule{
		Name: "ddp", Summary: "copies, whole or sharded (ZeRO, FSDP); gradients summed",
		About: "Every rank holds the network, computes on its share of the batch, and sums gradients with " +
			"the others, in buckets during the backward. The first thing to try where the network fits on " +
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

// gpipe runs all forwards, then all backwards, first in, first out, as
// PyTorch does (Huang et al. 2019, "GPipe", figure 2c). A rank may hold several
// stages: it then runs forwards stage by stage, and backwards in reverse order of
// stages.
func gpipe() Schedule {
	return Schedule{
		Name: "gpipe", Summary: "all forwards, then all backwards, first in, first out",
		About: "A batch is cut into microbatches that follow each other through the stages, all forwards " +
			"before any backward. It is the simplest pipeline; a rank keeps the activations of every " +
			"microbatch, so more of them shrink the bubble and cost memory.",
		Bubble: "(P-1)/(M+P-1)", Memory: "M", Lighter: "1f1b", Paper: "Huang et al. 2019, GPipe",
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

// forwardsByStage lists the forwards of all microbatches on one stage, then those on the
// next.
func forwardsByStage(s graph.Shape, stageRank []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	for stage, r := range stageRank {
		for m := range s.Microbatches {
			ranks[r] = append(ranks[r], order.F(stage, m))
		}
	}
	return ranks
}

// withReversedBackwards appends to every rank's forwards their backwards, in exactly the
// reverse order.
func withReversedBackwards(ranks order.Order) order.Order {
	for r, forwards := range ranks {
		for _, a := range slices.Backward(forwards) {
			ranks[r] = append(ranks[r], order.B(int(a.Stage), int(a.Microbatch)))
		}
	}
	return ranks
}

// torchgpipe takes the forwards from the clock cycles and runs the backwards
// in exactly the reverse order, as autograd does (Kim et al. 2020).
func torchgpipe() Schedule {
	return Schedule{
		Name: "torchgpipe", Summary: "GPipe by clock cycles, backwards last in, first out",
		About: "GPipe as torchgpipe runs it: in clock cycles, and backwards in the reverse order of " +
			"forwards, so that the newest activations are freed first. Time and peak are GPipe's.",
		Bubble: "(P-1)/(M+P-1)", Memory: "M", Lighter: "1f1b", Paper: "Kim et al. 2020, torchgpipe",
		Pipelined: true, order: byClockCycle,
	}
}

// byClockCycle lists forwards by clock cycle: cycle k holds every microbatch i on
// stage j with i + j = k, which makes M + P − 1 cycles (Kim et al. 2020, section 3.2.1).
func byClockCycle(s graph.Shape, stageRank []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	for k := range s.Microbatches + len(stageRank) - 1 {
		for stage := max(0, k-s.Microbatches+1); stage <= min(k, len(stageRank)-1); stage++ {
			r := stageRank[stage]
			ranks[r] = append(ranks[r], order.F(stage, k-stage))
		}
	}
	return withReversedBackwards(ranks)
}

// hw4 describes the pipeline of CMU's course 11-868, assignment 4, as PyTorch really runs it.
// Forwards overlap by clock cycles, as in torchgpipe. But autograd issues the backwards
// from one queue, in exactly the reverse order, and copies between devices block, so
// that backwards run one at a time.
//
//	rank 0   F0 F1 F2 F3 ·  ·  ·  B3 ·  B2 ·  B1 B0
//	rank 1   ·  F0 F1 F2 F3 B3 B2 ·  B1 ·  B0 ·  ·    (B as long as F)
//
// A rank may hold several stages, as the course's placement of GPT-2 does.
func hw4() Schedule {
	return Schedule{
		Name: "hw4", Summary: "forwards by clock cycles, backwards one at a time, as the CMU course's runs",
		About: "The pipeline of CMU's course as PyTorch runs it: forwards of different microbatches overlap, " +
			"and then autograd goes through one backward at a time. Use it to predict such a program, and " +
			"to see what it gives away.",
		Bubble: "1-M(F+B)/((M+P-1)F+MPB)", Memory: "M", Paper: "CMU 11-868; Kim et al. 2020, torchgpipe",
		MultiStage: true, Pipelined: true, SerialBackward: true, order: byClockCycle,
	}
}

// loopedBFS runs all microbatches of a chunk before the next chunk: breadth
// first. Backwards go from the last chunk and the last microbatch to the first
// (Lamy-Poirier 2023, "Breadth-First Pipeline Parallelism", figure 2). It has
// the interleaved schedule's bubble and GPipe's memory, and needs every chunk's
// parameters once each way, which suits sharded parameters.
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
		Pipelined: true, Virtual: true, place: loopedStages,
		order: func(s graph.Shape, stageRank []int32) order.Order {
			return withReversedBackwards(forwardsByStage(s, stageRank))
		},
	}
}
