package intervals

import (
	"math"
	"math/rand/v2"

	"psim/internal/units"
)

// draws is how often Best draws errors, which makes a probability known to 0.4 points.
const draws = 1 << 14

// A Contender is a plan that may be the best of several for one training on one machine.
type Contender struct {
	Stack string
	Step  float64 // predicted
}

// Best returns the probability of each plan to be the one with the shortest measured step. What psim gets wrong
// about the machine and the program is the same for all plans of a stack, and does not change their order. So
// a plan's error is an effect of its stack and one of the plan, whose variances are those of published runs.
// The same numbers are drawn at every call.
func (e Evidence) Best(plans []Contender) []float64 {
	all := e.own()
	stacks, own := math.Sqrt(all.Between), math.Sqrt(e.planVariance())
	random := rand.New(rand.NewPCG(1, 2))
	wins := make([]float64, len(plans))
	for range draws {
		effects := map[string]float64{}
		best, least := 0, math.Inf(1)
		for i, p := range plans {
			effect, ok := effects[p.Stack]
			if !ok {
				effect = stacks * random.NormFloat64()
				effects[p.Stack] = effect
			}
			if log := math.Log(p.Step) + effect + own*random.NormFloat64(); log < least {
				best, least = i, log
			}
		}
		wins[best] += 1. / draws
	}
	return wins
}

// planVariance returns the variance of errors among the plans of one training, with one vote a source.
// Without any such plans it is that of all runs of a source.
func (e Evidence) planVariance() float64 {
	var sources []float64
	for _, of := range e.bySource() {
		trainings := map[string]Evidence{}
		for _, r := range of {
			if r.Training != "" {
				trainings[r.Training] = append(trainings[r.Training], r)
			}
		}
		var squares, freedom float64
		for _, t := range of { // in order, which maps do not keep
			group := trainings[t.Training]
			delete(trainings, t.Training)
			if n := float64(len(group)); n > 1 {
				squares, freedom = squares+(n-1)*variance(group.logs()), freedom+n-1
			}
		}
		if freedom > 0 {
			sources = append(sources, squares/freedom)
		}
	}
	if sources == nil {
		return e.own().Within
	}
	return units.Mean(sources)
}
