package schedules

// gpipe runs all forwards, then all backwards, first in, first out, as
// PyTorch does (Huang et al. 2019, "GPipe", figure 2c). It also serves ranks
// that hold several stages: forwards by stage, backwards by stage reversed.
func gpipe(s Shape, stageRank []int32) Order {
	order := make(Order, s.Ranks)
	for stage, r := range stageRank {
		order[r] = appendAll(order[r], Forward, stage, s.Microbatches)
	}
	for stage := len(stageRank) - 1; stage >= 0; stage-- {
		r := stageRank[stage]
		order[r] = appendAll(order[r], Backward, stage, s.Microbatches)
	}
	return order
}

// appendAll appends one action per microbatch, in order.
func appendAll(actions []Action, k Kind, stage, microbatches int) []Action {
	for m := range microbatches {
		actions = append(actions, Action{Kind: k, Stage: int32(stage), Microbatch: int32(m)})
	}
	return actions
}

// torchgpipe takes the forwards from the clock cycles and runs the backwards
// in exactly the reverse order, as autograd does (Kim et al. 2020).
func torchgpipe(s Shape, stageRank []int32) Order {
	order := make(Order, s.Ranks)
	cycles := ClockCycles(s.Microbatches, s.Ranks)
	for _, cycle := range cycles {
		for _, c := range cycle {
			order[c.Stage] = append(order[c.Stage], Action{Kind: Forward, Stage: int32(c.Stage), Microbatch: int32(c.Microbatch)})
		}
	}
	for r, forwards := range order {
		for i := len(forwards) - 1; i >= 0; i-- {
			a := forwards[i]
			order[r] = append(order[r], Action{Kind: Backward, Stage: a.Stage, Microbatch: a.Microbatch})
		}
	}
	return order
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
