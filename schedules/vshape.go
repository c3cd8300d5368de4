package schedules

import (
	"fmt"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// vShape folds 2P stages over P ranks: down the ranks and up again, so that
// rank r holds stages r and 2P − 1 − r, and no message passes at the turn (Qi
// et al. 2024, "Pipeline Parallelism with Controllable Memory", section 3.1).
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

// twicePerRank demands at least two microbatches for every rank.
func twicePerRank(name string) func(graph.Shape) error {
	return func(s graph.Shape) error {
		if s.Microbatches < 2*s.Ranks {
			return fmt.Errorf("microbatches = %d: %s over %d ranks needs at least %d", s.Microbatches, name, s.Ranks, 2*s.Ranks)
		}
		return nil
	}
}

// A lane is one of the two ways through a rank: the rank's stage of it, and
// how far the microbatches that take it have come. Kinds count by themselves.
type lane struct {
	stage, first, microbatches int32 // microbatches numbered from first
	next                       [graph.Kinds]int32
}

// take returns the lane's next action of a kind; false if there is none left.
func (l *lane) take(k graph.Kind) (order.Action, bool) {
	m := l.next[k]
	l.next[k]++
	return order.Action{Kind: k, Stage: l.stage, Microbatch: l.first + m}, m < l.microbatches
}

// lanes makes a rank's order of two lanes.
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
