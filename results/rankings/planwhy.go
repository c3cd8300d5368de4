package rankings

import "math"

// A PlanWhy compares the best plan with another.
type PlanWhy struct {
	// The other plan: the second best, or the configuration's own.
	Plan     string   `json:"plan" oneof:"runner-up,configuration"`
	Set      []string `json:"set,omitempty"` // settings of the other plan; absent for the configuration's own
	StepTime float64  `json:"step_time_s"`   // of the other plan
	// Seconds by which the other plan takes longer, by the classes of explain.by_class_s. They
	// add up to the difference of the steps.
	Longer map[string]float64 `json:"longer_s"`
}

// LongerByClass returns by how many seconds another plan takes longer than the best one, by
// class, given the times of both. It leaves out classes that take equally long.
func LongerByClass(best, other map[string]float64) map[string]float64 {
	longer := map[string]float64{}
	for _, by := range []map[string]float64{best, other} {
		for class := range by {
			// Both are whole nanoseconds.
			if d := math.Round(1e9*(other[class]-best[class])) / 1e9; d != 0 {
				longer[class] = d
			}
		}
	}
	return longer
}
