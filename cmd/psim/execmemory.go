package main

import (
	"fmt"

	"psim/internal/memory"
	"psim/internal/units"
	"psim/schedules/graph"
	"psim/sim"
)

// checkMemory refuses an experiment whose tensors alone would not fit into this
// machine's memory, which all devices of the Go backend share. XLA's devices
// have memory of their own.
func (e *executed) checkMemory() error {
	trace, err := sim.Run(e.plan.Graph, e.plan.Costs)
	if err != nil {
		return err
	}
	var need float64
	for _, rank := range graph.Summarize(trace).Ranks {
		need += float64(rank.PeakMemory)
	}
	if have := memory.Free(); need > float64(have) {
		return fmt.Errorf("the tensors of all devices need %s at least, and %s of this machine's memory are free; train a smaller network or batch",
			units.FormatBytes(int64(min(need, 1e18))), units.FormatBytes(have))
	}
	return nil
}
