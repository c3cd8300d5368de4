package schedules

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// torchgpipe takes the forwards from the clock cycles and runs the backwards
// in exactly the reverse order, as autograd does (Kim et al. 2020).
func torchgpipe() Schedule {
	return Schedule{
		Name: "torchgpipe", Summary: "GPipe by clock cycles, backwards last in, first out",
		About: "GPipe as torchgpipe runs it: in clock cycles, and backwards in the reverse order of " +
			"forwards, so that the newest activations are freed first. Time and peak are GPipe's.",
		Bubble: "(P-1)/(M+P-1)", Memory: "M", Paper: "Kim et al. 2020, torchgpipe",
		Pipelined: true, order: byClockCycle,
	}
}

// byClockCycle lists forwards by clock cycle: cycle k holds every microbatch i on
// stage j with i + j = k, so that there are exactly M + P − 1 cycles, none of them
// empty (Kim et al. 2020, section 3.2.1).
func byClockCycle(s graph.Shape, stageRank []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	for k := range s.Microbatches + len(stageRank) - 1 {
		for stage := max(0, k-s.Microbatches+1); stage <= min(k, len(stageRank)-1); stage++ {
			r := stageRank[stage]
			ranks[r] = append(ranks[r], order.F(stage, k-stage))
		}
	}
	return thenReversed(ranks)
}
