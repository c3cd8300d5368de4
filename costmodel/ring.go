package costmodel

import (
	"psim/schedules/graph"
)

// RingCosts prices a spelled-out ring on a machine. What arrives is added or
// copied while it is received, so only sending takes time.
func RingCosts(m Machine, g *graph.Graph) (graph.Costs, error) {
	if err := m.check(g); err != nil {
		return graph.Costs{}, err
	}
	return graph.Costs{Task: func(t *graph.Task) graph.Cost {
		if t.Kind.Message() {
			return m.message(t)
		}
		return graph.Cost{}
	}}, nil
}
