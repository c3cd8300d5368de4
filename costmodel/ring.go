package costmodel

import (
	"psim/schedules"
)

// RingCosts prices a spelled-out ring on a machine. What arrives is added or
// copied while it is received, so only sending takes time.
func RingCosts(m Machine, g *schedules.Graph) (schedules.Costs, error) {
	if err := m.check(g); err != nil {
		return schedules.Costs{}, err
	}
	return schedules.Costs{Task: func(t *schedules.Task) schedules.Cost {
		if t.Kind.Message() {
			return m.message(t)
		}
		return schedules.Cost{}
	}}, nil
}
