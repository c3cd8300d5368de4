package wiring

import "psim/schedules/graph"

// cycles are the clock cycles of a synchronous graph. The zero value is for a
// graph without barriers.
type cycles struct {
	clocks [][]int32 // by pipeline rank and action
	tasks  [][]int32 // by cycle: the last tasks of its actions
}

// cycles finds the clock cycles of a synchronous graph.
func (p *Pipeline) cycles(t turns) (*cycles, error) {
	if !p.Synchronous {
		return &cycles{}, nil
	}
	of, err := p.Order.ClocksAfter(t.waitsFor)
	if err != nil {
		return nil, err
	}
	var actions []int // by cycle
	all := 0
	for _, clocks := range of {
		all += len(clocks)
		for _, k := range clocks {
			for int(k) >= len(actions) {
				actions = append(actions, 0)
			}
			actions[k]++
		}
	}
	c, memory := &cycles{clocks: of, tasks: make([][]int32, len(actions))}, make([]int32, all)
	for k, n := range actions {
		c.tasks[k], memory = memory[:0:n], memory[n:]
	}
	return c, nil
}

// note records the last task of an action, the i-th of its rank: its message, or its compute task if
// it has no message.
func (c *cycles) note(rank, i int, task int32) {
	if c.clocks != nil {
		k := c.clocks[rank][i]
		c.tasks[k] = append(c.tasks[k], task)
	}
}

// barrier returns the clock cycle before that of the current action as a dependency, or None for
// actions of the first cycle.
func (c *connector) barrier() int32 {
	if k := c.cycles.clocks[c.rank][c.at]; k > 0 {
		return graph.Barrier(int(k) - 1)
	}
	return graph.None
}
