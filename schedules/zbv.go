package schedules

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// zbv has no bubble where F, I and W take the same time: rank r holds stages r
// (lane 0) and 2P − 1 − r (lane 1), and fills every gap with weight gradients
// (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", section
// 3.2, V-ZB). It is written for no fewer than 2P − 1 microbatches; of fewer,
// those that are not there are left out. With P = 2 and M = 4 (f, i, w of the
// second stage in lower case, microbatches left out):
//
//	rank 0   F F F f i w f i w F I W f i w I W f i w I W I W
//	rank 1   · F f F f i w F I W f i w F I W f i w I i I W w W
func zbv() Schedule {
	return Schedule{
		Name: "zbv", Summary: "stages folded into a V over the ranks; split backwards fill every gap",
		About: "A rank holds two stages, one on the way down a V and one on the way up, so the last stage is " +
			"on the first rank and its backward starts there. With equal times no rank waits between its " +
			"first and last task, in 1F1B's memory.",
		Bubble: "0 of span, F=I=W, M>=2P-1", Memory: "2P, M>=2P-1", Paper: "Qi et al. 2024, Controllable Memory",
		Constraint: "2 stages per rank", Pipelined: true, PerRank: 2,
		order: zbvOrder, place: vShape,
	}
}

func zbvOrder(s graph.Shape, _ []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	for r := range ranks {
		ranks[r] = zbvRank(r, s.Ranks, s.Microbatches)
	}
	return ranks
}

// zbvRank orders one rank.
func zbvRank(r, p, m int) []order.Action {
	own := &lanes{lane: [2]lane{
		{stage: int32(r), microbatches: int32(m)},
		{stage: int32(2*p - 1 - r), microbatches: int32(m)},
	}}
	full := int32(max(m, 2*p-1))
	own.do(2*(p-r)-1, 0, graph.Forward)
	for range r {
		own.do(1, 1, graph.Forward)
		own.do(1, 0, graph.Forward)
	}
	own.do(p-r, 1, graph.Forward, graph.InputGradient, graph.WeightGradient)
	for own.lane[0].next[graph.Forward] < full || own.lane[1].next[graph.Forward] < full {
		if own.lane[0].next[graph.Forward] < full {
			own.do(1, 0, graph.Forward)
		}
		own.do(1, 0, graph.InputGradient, graph.WeightGradient)
		own.do(1, 1, graph.Forward, graph.InputGradient, graph.WeightGradient)
	}
	for range r {
		own.do(1, 0, graph.InputGradient)
		own.do(1, 1, graph.InputGradient)
	}
	own.do(p-r, 0, graph.InputGradient, graph.WeightGradient)
	own.do(int(full-own.lane[1].next[graph.WeightGradient]), 1, graph.WeightGradient)
	own.do(int(full-own.lane[0].next[graph.WeightGradient]), 0, graph.WeightGradient)
	return own.actions
}
