package rankings

import (
	"cmp"
	"fmt"
	"math"

	"psim/internal/units"
)

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

// A StackAccuracy says how far off predictions were, of runs with one stack, device and precision, of
// dense networks or of mixtures of experts.
type StackAccuracy struct {
	Stack     string  `json:"stack"`                      // as train.stack
	Device    string  `json:"device"`                     // as machine.device
	Precision string  `json:"precision"`                  // as train.precision
	Mixture   bool    `json:"mixture"`                    // whether the networks are mixtures of experts
	Rows      int     `json:"rows"`                       // published runs to which no constant was fitted
	MeanError float64 `json:"mean_error" unit:"fraction"` // mean absolute error of their step times
}

// Text says in a sentence how far off predictions were.
func (a StackAccuracy) Text() string {
	network, device := "dense networks", cmp.Or(a.Device, "this device")
	if a.Mixture {
		network = "mixtures of experts"
	}
	if a.Rows == 0 {
		return fmt.Sprintf("no published run of %s with %s in %s on %s has been compared with these constants "+
			"(docs/accuracy.md)", network, a.Stack, a.Precision, device)
	}
	over := "on average, over " + units.Plural(a.Rows, "published run")
	if a.Rows == 1 {
		over = "on one published run,"
	}
	return fmt.Sprintf("predictions of %s with %s in %s on %s were %.1f %% off %s to which no constant was fitted "+
		"(docs/accuracy.md)", network, a.Stack, a.Precision, device, 100*a.MeanError, over)
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
