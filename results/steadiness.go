package results

import (
	"fmt"
	"slices"
	"strings"
)

// Steadiness says how steady the machine was while steps were measured, in fractions; 0 is
// perfectly steady. A fixed matrix product is timed for a moment on all devices at once,
// before and after the steps.
type Steadiness struct {
	// Spread is the standard deviation of the steps divided by their mean.
	Spread float64 `json:"spread" unit:"fraction"`
	// Slowdown is how much longer the product took on average than at best. It shows how much
	// other programs used the cores.
	Slowdown float64 `json:"product_slowdown" unit:"fraction"`
	// Change is the change of the product's best time from before the steps to after them. It
	// shows whether the speed of the machine itself changed.
	Change float64 `json:"product_change" unit:"fraction"`
}

// Above these bounds a machine was disturbed. In the experiments of docs/executed.md, whose
// predictions are off by 1.8 % (median) and 4.5 % (worst), steps deviate and products change
// by at most 4 %; the bounds are twice that. A program that takes a fifth of a core slows the
// product down by a quarter: 1/(1 − 0.2) − 1.
const (
	mostSpread   = 0.08
	mostChange   = 0.08
	mostSlowdown = 0.25
)

// Score returns the largest of the three numbers, each divided by its bound. Above 1 the
// machine was disturbed.
func (s Steadiness) Score() float64 {
	return max(s.Spread/mostSpread, s.Change/mostChange, s.Slowdown/mostSlowdown)
}

// Warning says which numbers show that the machine was disturbed. It is "" if none does.
func (s Steadiness) Warning() string {
	var list []string
	for _, x := range []struct {
		text        string
		value, most float64
	}{
		{"the steps deviate by %.1f %% (at most %.0f %% on a quiet machine)", s.Spread, mostSpread},
		{
			"a fixed matrix product took %.1f %% longer on average than at best (at most %.0f %%)",
			s.Slowdown, mostSlowdown,
		},
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
	if s.Slowdown <= mostSlowdown && s.Change <= mostChange { // the product was not disturbed
		why = "something else was running, or the steps are uneven by themselves"
	}
	return "the machine was disturbed: " + strings.Join(list, ", ") + "; " + why +
		", so that neither the prediction nor the times can be relied on"
}

// An Attempt is one of several runs, which were repeated because the machine was disturbed.
type Attempt struct {
	Steps     []float64 `json:"steps"`       // times of the steps, in seconds
	StepTime  float64   `json:"step_time_s"` // mean of the steps
	Predicted float64   `json:"predicted_s"` // step time predicted from the times of its own tasks
	Disturbed bool      `json:"disturbed"`   // whether the machine was disturbed in this run
	// Numbers that show whether the machine was disturbed; absent if they were not measured.
	Steadiness *Steadiness `json:"steadiness,omitempty"`
}

// SlowRankWarning names the rank that computed slowest, compared with what its tasks take
// alone on the fastest replica. It is "" unless that rank differs from the others by more than
// the steps deviate, and by more than another program explains.
func (r Result) SlowRankWarning() string {
	if r.Predicted == nil || r.Measurement == nil || len(r.Ranks) < 2 || len(r.Predicted.Ranks) != len(r.Ranks) {
		return ""
	}
	slower := make([]float64, len(r.Ranks)) // how many times as long as alone
	worst, alone := 0, make([]float64, len(r.Ranks))
	each := len(r.Ranks) / max(1, r.DataParallel)
	for k := range slower {
		alone[k] = r.Predicted.Ranks[k].Compute
		for other := k % each; other < len(slower) && r.Ranks[k].Samples == 0; other += each {
			alone[k] = min(alone[k], r.Predicted.Ranks[other].Compute)
		}
		if alone[k] <= 0 {
			return ""
		}
		if slower[k] = r.Ranks[k].Compute / alone[k]; slower[k] > slower[worst] {
			worst = k
		}
	}
	others := slices.Max(slices.Delete(slices.Clone(slower), worst, worst+1))
	excess := (slower[worst] - others) * alone[worst]
	if slower[worst] <= (1+mostSlowdown)*others || excess <= 2*r.StepTimeStd {
		return ""
	}
	return fmt.Sprintf("rank %d computed %.2f times as long as its tasks take alone, the others at most %.2f times: "+
		"its device was slow", worst, slower[worst], others)
}

// SharedCores completes a sentence about devices with fewer cores than they need, as in
// "2 devices that share cores".
const SharedCores = " that share cores: the times say little about devices of their own"
