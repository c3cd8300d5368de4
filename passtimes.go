package psim

import "psim/costmodel"

// passes lists the times of the passes by their keys.
func passes(t costmodel.Times) []passTime {
	return []passTime{{"forward", t.Forward}, {"backward", t.Backward}, {"backward_input", t.InputGradient}, {"backward_weight", t.WeightGradient}}
}

// passTime holds what a pass takes, under its key in [times].
type passTime struct {
	key   string
	table costmodel.Table
}
