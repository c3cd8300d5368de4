package schedules

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// gpipe runs all forwards, then all backwards, first in, first out, as
// PyTorch does (Huang et al. 2019, "GPipe", figure 2c). It also serves ranks
// that hold several stages: forwards by stage, backwards by stage reversed.
func gpipe(s graph.Shape, stageRank []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	for stage, r := range stageRank {
		ranks[r] = appendAll(ranks[r], graph.Forward, stage, s.Microbatches)
	}
	for stage := len(stageRank) - 1; stage >= 0; stage-- {
		r := stageRank[stage]
		ranks[r] = appendAll(ranks[r], graph.Backward, stage, s.Microbatches)
	}
	return ranks
}

// appendAll appends one action per microbatch, in order.
func appendAll(actions []order.Action, k graph.Kind, stage, microbatches int) []order.Action {
	for m := range microbatches {
		actions = append(actions, order.Action{Kind: k, Stage: int32(stage), Microbatch: int32(m)})
	}
	return actions
}

// torchgpipe takes the forwards from the clock cycles and runs the backwards
// in exactly the reverse order, as autograd does (Kim et al. 2020).
func torchgpipe(s graph.Shape, stageRank []int32) order.Order {
	ranks := make(order.Order, s.Ranks)
	cycles := ClockCycles(s.Microbatches, s.Ranks)
	for _, cycle := range cycles {
		for _, c := range cycle {
			ranks[c.Stage] = append(ranks[c.Stage], order.Action{Kind: graph.Forward, Stage: int32(c.Stage), Microbatch: int32(c.Microbatch)})
		}
	}
	for r, forwards := range ranks {
		for i := len(forwards) - 1; i >= 0; i-- {
			a := forwards[i]
			ranks[r] = append(ranks[r], order.Action{Kind: graph.Backward, Stage: a.Stage, Microbatch: a.Microbatch})
		}
	}
	return ranks
}

// A Cell is one forward of a clock cycle.
type Cell struct{ Microbatch, Stage int }

// ClockCycles lists which forwards of m microbatches over n stages run side
// by side: cycle k holds every (i, j) with i + j = k, so there are exactly
// m + n − 1 cycles, none of them empty (torchgpipe, section 3.2.1). Without
// microbatches or stages there are none.
func ClockCycles(m, n int) [][]Cell {
	if m < 1 || n < 1 {
		return nil
	}
	cycles := make([][]Cell, m+n-1)
	for k := range cycles {
		for j := max(0, k-m+1); j <= min(k, n-1); j++ {
			cycles[k] = append(cycles[k], Cell{Microbatch: k - j, Stage: j})
		}
	}
	return cycles
}
