package rankings

import (
	"cmp"
	"fmt"
	"math"

	"psim/internal/units"
)

// A PlanWhy compares the best plan with another.
type PlanWhy struct {
	Plan     string   `json:"plan" oneof:"runner-up,configuration"` // the other: the second best, or what the configuration is
	Set      []string `json:"set,omitempty"`                        // its settings; the configuration's own need none
	StepTime float64  `json:"step_time_s"`                          // of the other
	// Seconds that the other takes longer, by the classes of explain.by_class_s: they add up
	// to the difference of the steps.
	Longer map[string]float64 `json:"longer_s"`
}

// A StackAccuracy is how far off predictions of a stack on a device were.
type StackAccuracy struct {
	Stack     string  `json:"stack"`                      // as train.stack
	Device    string  `json:"device"`                     // as machine.device
	Rows      int     `json:"rows"`                       // published runs that no constant was fitted to
	MeanError float64 `json:"mean_error" unit:"fraction"` // of their steps, absolute
}

// Text says how far off in a sentence.
func (a StackAccuracy) Text() string {
	if a.Rows == 0 {
		return fmt.Sprintf("no published run of %s on %s stands beside these constants (docs/accuracy.md)", a.Stack, cmp.Or(a.Device, "this device"))
	}
	return fmt.Sprintf("predictions of %s on %s were %.1f %% off on average, over %s that no constant was fitted to (docs/accuracy.md)", a.Stack, a.Device, 100*a.MeanError, units.Plural(a.Rows, "published run"))
}

// NewPlanWhy compares the times of two plans by class.
func NewPlanWhy(plan string, set []string, step float64, best, other map[string]float64) PlanWhy {
	w := PlanWhy{Plan: plan, Set: set, StepTime: step, Longer: map[string]float64{}}
	for _, by := range []map[string]float64{best, other} {
		for class := range by {
			// Both are whole nanoseconds.
			if d := math.Round(1e9*(other[class]-best[class])) / 1e9; d != 0 {
				w.Longer[class] = d
			}
		}
	}
	return w
}
