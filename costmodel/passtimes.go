package costmodel

// PassTimes lists the times of the passes by their keys.
func PassTimes(t Times) []PassTime {
	return []PassTime{{"forward", t.Forward}, {"backward", t.Backward}, {"backward_input", t.InputGradient}, {"backward_weight", t.WeightGradient}}
}

// PassTime holds what a pass takes, under its key in [times].
type PassTime struct {
	Key   string
	Table TimeTable
}
