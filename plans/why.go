package plans

import (
	"context"

	"psim"
	"psim/configs"
	"psim/intervals"
	"psim/results/rankings"
)

// Explain says why the best plan wins: where the second plan takes longer, and where the
// configuration's own plan does, if that fits on the same number of devices.
func (r *Answer) Explain(ctx context.Context, c *configs.Config, q Query) error {
	if len(r.Plans) == 0 {
		return nil
	}
	best := r.byClass[0]
	if len(r.Plans) > 1 {
		r.Why = append(r.Why, rankings.PlanWhy{
			Plan: "runner-up", Set: r.Plans[1].Set, StepTime: r.Plans[1].StepTime,
			Longer: rankings.LongerByClass(best, r.byClass[1]),
		})
	}
	own, byClass, err := explainOwn(ctx, c, q)
	if err == nil && own != nil && own.Result.Fits() && own.Result.StepTime != r.Plans[0].StepTime {
		r.Why = append(r.Why, rankings.PlanWhy{
			Plan: "configuration", StepTime: own.Result.StepTime, Longer: rankings.LongerByClass(best, byClass),
		})
	}
	return ctx.Err()
}

// explainOwn predicts the configuration's own plan, and splits its step by class. It returns nil if
// that plan is for another number of devices.
func explainOwn(
	ctx context.Context, c *configs.Config, q Query,
) (own *psim.Prediction, byClass map[string]float64, err error) {
	if c, err = c.With(marginSet(q)); err != nil || c.Devices() != float64(q.Devices) {
		return nil, nil, err
	}
	own, e, err := psim.EstimateExplained(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return own, e.ByClass, nil
}

// setChances says how likely each of the first plans is the best of them when measured, if there are several
// with a stack.
func setChances(list []rankings.RankedPlan) {
	list = list[:min(len(list), rankings.Rivals)]
	var rivals []intervals.Contender
	for _, p := range list {
		if p.Stack == "" || p.Kind == "" {
			return
		}
		rivals = append(rivals, intervals.Contender{Stack: p.Stack, Step: p.StepTime})
	}
	if len(rivals) < 2 {
		return
	}
	for i, chance := range intervals.Published().Best(rivals) {
		list[i].ProbabilityBest = &chance
	}
}
