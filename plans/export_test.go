package plans

import "time"

// Outlined returns the bound of a plan by the passes of its order; 0 if it has none.
func Outlined(p *Plan) time.Duration {
	g := newStageGroup(p)
	if g.pruned != "" {
		return 0
	}
	bound, _ := new(engine).outlined(p, g)
	return bound
}

// Within reports whether the simulation of a plan that is possible comes to its end within a horizon.
func Within(p *Plan, horizon time.Duration) (within, possible bool) {
	g := newStageGroup(p)
	if g.pruned != "" {
		return false, false
	}
	out, pruned, err := new(engine).simulate(p, g, horizon)
	return !out.Late, pruned == "" && err == nil
}
