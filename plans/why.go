package plans

import (
	"context"

	"psim"
	"psim/configs"
	"psim/results/rankings"
)

// Explain says why the best plan wins: where the second plan takes longer, and where the
// configuration's own plan does, if that fits on the same number of devices.
func (r *Answer) Explain(ctx context.Context, c *configs.Config, q Query) error {
	if len(r.Plans) == 0 {
		return nil
	}
	best, err := explain(ctx, c, r.Plans[0].Set)
	if err != nil {
		return err
	}
	if len(r.Plans) > 1 {
		second, err := explain(ctx, c, r.Plans[1].Set)
		if err != nil {
			return err
		}
		r.Why = append(r.Why, rankings.PlanWhy{
			Plan: "runner-up", Set: r.Plans[1].Set, StepTime: r.Plans[1].StepTime,
			Longer: rankings.LongerByClass(best.classes, second.classes),
		})
	}
	own, err := explain(ctx, c, []string{marginSet(q)})
	if err == nil && own.Result.Fits() && own.Devices() == q.Devices && own.Result.StepTime != r.Plans[0].StepTime {
		r.Why = append(r.Why, rankings.PlanWhy{
			Plan: "configuration", StepTime: own.Result.StepTime,
			Longer: rankings.LongerByClass(best.classes, own.classes),
		})
	}
	return ctx.Err()
}

// explained holds a prediction, and the seconds of its step by class.
type explained struct {
	*psim.Prediction
	classes map[string]float64
}

func explain(ctx context.Context, c *configs.Config, sets []string) (explained, error) {
	c, err := c.With(sets...)
	if err != nil {
		return explained{}, err
	}
	p, err := psim.Predict(ctx, c)
	if err != nil {
		return explained{}, err
	}
	e, err := p.Explain()
	if err != nil {
		return explained{}, err
	}
	return explained{p, e.ByClass}, nil
}
