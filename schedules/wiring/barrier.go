package wiring

import (
	"fmt"

	"psim/schedules/graph"
)

// maxBarriers bounds the dependencies that barriers add, a gigabyte of them:
// they grow with the square of the ranks.
const maxBarriers = 1 << 28

// clockCycles is what a synchronous graph needs to know while a replica is
// wired. The zero value is a graph without barriers.
type clockCycles struct {
	of    [][]int32 // by pipeline rank and action
	tasks [][]int32 // by cycle: with which its actions end in the replica at hand
}

// addClocks finds the cycles of a synchronous graph, and refuses one whose
// barriers are more than can be counted.
func (w *wiring) addClocks() error {
	if !w.Synchronous {
		return nil
	}
	of, err := w.Order.ClocksAfter(w.issuedAfter)
	if err != nil {
		return err
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
	if deps > maxBarriers/int64(w.Shape.Replicas) {
		return fmt.Errorf("synchronous = true: the barriers between %d clock cycles would be %d dependencies in each of %d replicas; at most %d in all are supported: use fewer stages, microbatches or replicas",
			len(actions), deps, w.Shape.Replicas, maxBarriers)
	}
	w.clocks = clockCycles{of: of, tasks: make([][]int32, len(actions))}
	return nil
}

// restart forgets the tasks of the replica before.
func (c *clockCycles) restart() {
	for k := range c.tasks {
		c.tasks[k] = c.tasks[k][:0]
	}
}

// ends notes the task with which an action, the i-th of its rank, ends: its
// message, or without one its compute task.
func (c *clockCycles) ends(rank, i int, task int32) {
	if c.of != nil {
		k := c.of[rank][i]
		c.tasks[k] = append(c.tasks[k], task)
	}
}

// barrier lists what a compute task, the i-th action of its rank, waits for:
// deps, and the clock cycle before but for what its own stream says anyway.
func (c *clockCycles) barrier(g *graph.Graph, t *graph.Task, i int, deps [5]int32) []int32 {
	all := deps[:]
	k := c.of[int(t.Rank)%g.Shape.Ranks][i]
	if k == 0 {
		return all
	}
	for _, before := range c.tasks[k-1] {
		known := before == deps[0] || before == deps[1] // a result, not a sum or an all-gather
		if g.Tasks[before].Stream != t.Stream && !known {
			all = append(all, before)
		}
	}
	return all
}
