package results

import (
	"fmt"
	"slices"
	"strings"

	"psim/internal/units"
)

// Steadiness is how steady the machine was while steps were measured, as fractions: 0
// is perfectly so. A fixed matrix product is timed for a moment on all devices at
// once, before and after the steps.
type Steadiness struct {
	// Spread is the deviation of the steps over their mean.
	Spread float64 `json:"spread" unit:"fraction"`
	// Slowdown is by how much longer the product took on average than at best: what
	// other programs took of the cores.
	Slowdown float64 `json:"product_slowdown" unit:"fraction"`
	// Change is by how much its best times differ from before to after: the speed of
	// the machine itself.
	Change float64 `json:"product_change" unit:"fraction"`
}

// What makes a machine disturbed. Experiments of docs/executed.md, whose predictions are
// off by 1.8 % (median) and 4.5 % (worst), have steps that deviate by at most 4 % and
// products that change by at most 4 %: twice that says that more than the prediction is
// at fault. A program that takes a fifth of a core, 1/(1 − 0.2) − 1, slows the product
// down by a quarter.
const (
	mostSpread   = 0.08
	mostChange   = 0.08
	mostSlowdown = 0.25
)

// Score is above 1 where the machine was disturbed: the largest of the three, each as a
// share of what it may be.
func (s Steadiness) Score() float64 {
	return max(s.Spread/mostSpread, s.Change/mostChange, s.Slowdown/mostSlowdown)
}

// Warning says by which numbers the machine was disturbed; "" where it was not.
func (s Steadiness) Warning() string {
	var list []string
	for _, x := range []struct {
		text        string
		value, most float64
	}{
		{"the steps deviate by %.1f %% (at most %.0f %% on a quiet machine)", s.Spread, mostSpread},
		{"a fixed matrix product took %.1f %% longer on average than at best (at most %.0f %%)", s.Slowdown, mostSlowdown},
		{"the best time of that product changed by %.1f %% meanwhile (at most %.0f %%)", s.Change, mostChange},
	} {
		if x.value > x.most {
			list = append(list, fmt.Sprintf(x.text, 100*x.value, 100*x.most))
		}
	}
	if list == nil {
		return ""
	}
	why := "something else was running"
	if s.Slowdown <= mostSlowdown && s.Change <= mostChange { // the product saw nothing of it
		why = "something else was running, or the steps are uneven by themselves"
	}
	return "the machine was disturbed: " + strings.Join(list, ", ") + "; " + why + ", so that neither the prediction nor the times can be relied on"
}

// An Attempt is one of several runs that were made because the machine was disturbed.
type Attempt struct {
	Steps     []float64 `json:"steps"`       // their times, in seconds
	StepTime  float64   `json:"step_time_s"` // their mean
	Predicted float64   `json:"predicted_s"` // by the times of its own tasks
	Disturbed bool      `json:"disturbed"`   // whether the machine was disturbed in this run
	// What tells whether the machine was disturbed; absent where that was not measured.
	Steadiness *Steadiness `json:"steadiness,omitempty"`
}

// SlowRank tells of the rank whose forwards and backwards took longest for what they take
// alone, on the fastest replica, if that is longer than elsewhere by more than steps
// deviate and another program may be at fault for; "" where none stands out.
func (r Result) SlowRank() string {
	if r.Predicted == nil || r.Measurement == nil || len(r.Ranks) < 2 || len(r.Predicted.Ranks) != len(r.Ranks) {
		return ""
	}
	of := make([]float64, len(r.Ranks)) // times as long as alone
	worst, alone := 0, make([]float64, len(r.Ranks))
	each := len(r.Ranks) / max(1, r.DataParallel)
	for k := range of {
		alone[k] = r.Predicted.Ranks[k].Compute
		for other := k % each; other < len(of) && r.Ranks[k].Samples == 0; other += each {
			alone[k] = min(alone[k], r.Predicted.Ranks[other].Compute)
		}
		if alone[k] <= 0 {
			return ""
		}
		if of[k] = r.Ranks[k].Compute / alone[k]; of[k] > of[worst] {
			worst = k
		}
	}
	others := slices.Max(slices.Delete(slices.Clone(of), worst, worst+1))
	if excess := (of[worst] - others) * alone[worst]; of[worst] <= (1+mostSlowdown)*others || excess <= 2*r.StepTimeStd {
		return ""
	}
	return fmt.Sprintf("rank %d computed %.2f times as long as its tasks take alone, the others at most %.2f times: its device was slow", worst, of[worst], others)
}

// SharingCores says what times of devices are worth that share cores.
const SharingCores = " that share cores: the times say little about devices of their own"

// SharedCores says what the times of devices are worth that have fewer cores than they need.
func SharedCores(devices int) string { return units.Plural(devices, "device") + SharingCores }
