package wiring

import (
	"fmt"
	"slices"
)

// maxBarriers limits the dependencies of barriers, whose number grows with the square of the
// ranks, to a gigabyte of memory.
const maxBarriers = 1 << 28

// cycles are the clock cycles of a synchronous graph. The zero value is for a
// graph without barriers.
type cycles struct {
	clocks [][]int32 // by pipeline rank and action
	tasks  [][]int32 // by cycle: the last tasks of its actions
}

// cycles finds the clock cycles of a synchronous graph. It refuses a graph whose barriers
// have too many dependencies.
func (p *Pipeline) cycles(t turns) (*cycles, error) {
	if !p.Synchronous {
		return &cycles{}, nil
	}
	of, err := p.Order.ClocksAfter(t.before)
	if err != nil {
		return nil, err
	}
	var actions []int64 // by cycle
	for _, clocks := range of {
		for _, k := range clocks {
			for int(k) >= len(actions) {
				actions = append(actions, 0)
			}
			actions[k]++
		}
	}
	var deps int64
	for k := 1; k < len(actions); k++ {
		deps += actions[k-1] * actions[k]
	}
	if deps > maxBarriers/int64(p.Shape.Replicas) {
		return nil, fmt.Errorf("synchronous = true: the barriers between %d clock cycles would be %d dependencies "+
			"in each of %d replicas; at most %d in all are supported: use fewer stages, microbatches or replicas",
			len(actions), deps, p.Shape.Replicas, maxBarriers)
	}
	return &cycles{clocks: of, tasks: make([][]int32, len(actions))}, nil
}

// note records the last task of an action, the i-th of its rank: its message, or its compute task if
// it has no message.
func (c *cycles) note(rank, i int, task int32) {
	if c.clocks != nil {
		k := c.clocks[rank][i]
		c.tasks[k] = append(c.tasks[k], task)
	}
}

// barrier appends the last tasks of the clock cycle before to the dependencies of task i, the first
// of the current action. It leaves out tasks of the same stream and results, which are among the
// dependencies already.
func (c *connector) barrier(deps []int32, i int32, results []int32) []int32 {
	k := c.cycles.clocks[c.rank][c.at]
	if k == 0 {
		return deps
	}
	for _, before := range c.cycles.tasks[k-1] {
		if c.stream(before) != c.stream(i) && !slices.Contains(results, before) {
			deps = append(deps, before)
		}
	}
	return deps
}
