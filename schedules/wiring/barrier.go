package wiring

import (
	"fmt"
	"slices"
)

// maxBarriers bounds the dependencies that barriers add, a gigabyte of them:
// they grow with the square of the ranks.
const maxBarriers = 1 << 28

// cycles holds the clock cycles of a synchronous graph. The zero value is of a
// graph without barriers.
type cycles struct {
	clocks [][]int32 // by pipeline rank and action
	tasks  [][]int32 // by cycle: with which its actions end
}

// cycles finds the cycles of a synchronous graph, and refuses one whose barriers
// are more than can be counted.
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
		return nil, fmt.Errorf("synchronous = true: the barriers between %d clock cycles would be %d dependencies in each of %d replicas; at most %d in all are supported: use fewer stages, microbatches or replicas",
			len(actions), deps, p.Shape.Replicas, maxBarriers)
	}
	return &cycles{clocks: of, tasks: make([][]int32, len(actions))}, nil
}

// ends notes the task with which an action, the i-th of its rank, ends: its
// message, or without one its compute task.
func (c *cycles) note(rank, i int, task int32) {
	if c.clocks != nil {
		k := c.clocks[rank][i]
		c.tasks[k] = append(c.tasks[k], task)
	}
}

// barrier adds the clock cycle before to what the first task of the action at hand waits for, but
// for what its own stream and the results that it needs say anyway.
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
