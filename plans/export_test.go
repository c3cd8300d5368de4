package plans

import "time"

// Outlined returns the bound of a plan by the passes of its order, 0 if it has none, or that the order does not fit.
func Outlined(p *Plan) (bound time.Duration, tooLarge bool) {
	g := newStageGroup(p)
	if g.pruned != "" {
		return 0, false
	}
	if bound, _ = new(engine).outlined(p, g); bound == forever {
		return 0, true
	}
	return bound, false
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
