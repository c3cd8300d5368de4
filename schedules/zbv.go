package schedules

import (
	"fmt"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// vShape folds 2P stages over P ranks, down the ranks and up again: rank r holds stages
// r and 2P − 1 − r, so that the turn needs no message (Qi et al. 2024, "Pipeline
// Parallelism with Controllable Memory", section 3.1).
//
//	rank 0   0 7
//	rank 1   1 6
//	rank 2   2 5
//	rank 3   3 4
func vShape(s graph.Shape) graph.Placement {
	stageRank := make([]int32, 2*s.Ranks)
	for r := range int32(s.Ranks) {
		stageRank[r], stageRank[2*s.Ranks-1-int(r)] = r, r
	}
	return graph.Placement{First: stageRank}
}

// requireTwoPerRank demands at least two microbatches for every rank.
func requireTwoPerRank(name string) func(graph.Shape) error {
	return func(s graph.Shape) error {
		if s.Microbatches < 2*s.Ranks {
			return fmt.Errorf("microbatches = %d: %s over %d ranks needs at least %d",
				s.Microbatches, name, s.Ranks, 2*s.Ranks)
		}
		return nil
	}
}

// A lane is one of the two ways through a rank: the stage of the rank on this way, and
// the progress of its microbatches, counted separately for every kind.
type lane struct {
	stage, first, microbatches int32 // microbatches numbered from first
	next                       [graph.Kinds]int32
}

// vLanes returns the two lanes of a rank of a V.
func vLanes(r, p, m int) [2]lane {
	return [2]lane{{stage: int32(r), microbatches: int32(m)}, {stage: int32(2*p - 1 - r), microbatches: int32(m)}}
}

// take returns the lane's next action of a kind, and false after the last.
func (l *lane) take(k graph.Kind) (order.Action, bool) {
	m := l.next[k]
	l.next[k]++
	return order.Action{Kind: k, Stage: l.stage, Microbatch: l.first + m}, m < l.microbatches
}

// lanes builds a rank's order from two lanes.
type lanes struct {
	lane    [2]lane
	actions []order.Action
}

// do appends the next action of each kind, times over, on lane 0 or 1.
func (l *lanes) do(times, lane int, kinds ...graph.Kind) {
	for range times {
		for _, k := range kinds {
			if a, ok := l.lane[lane].take(k); ok {
				l.actions = append(l.actions, a)
			}
		}
	}
}

// zbv has no bubble if F, I and W take the same time: rank r holds stages r
// (lane 0) and 2P − 1 − r (lane 1), and fills every gap with weight gradients
// (Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", section
// 3.2, V-ZB). The order is written for at least 2P − 1 microbatches; with fewer,
// passes of missing microbatches are skipped. With P = 2 and M = 4 (f, i, w of the
// second stage in lower case, microbatches omitted):
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
		order: byRank(zbvRank), place: vShape,
	}
}

func zbvRank(s graph.Shape, r int) []order.Action {
	p, m := s.Ranks, s.Microbatches
	own := &lanes{lane: vLanes(r, p, m)}
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
