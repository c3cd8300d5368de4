package psim

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"psim/costmodel"
	"psim/intervals"
	"psim/results"
	"psim/schedules/graph"
)

// Conditions returns what the error of the prediction may depend on.
func (p *Prediction) Conditions() intervals.Conditions {
	c := intervals.Conditions{Stack: p.Result.Stack, Products: p.products}
	c.Chip, _, _ = strings.Cut(p.Result.Device, "-")
	if p.Experiment.Staged != nil {
		c.Bits = p.Experiment.Staged.Training.Bits()
		c.Scans = p.Experiment.Staged.Network.Scans()
	}
	return c
}

// productsOf returns the share of the step that products and attention take, in the mean over ranks, or 0 if the
// configuration has no layers.
func (p *Prediction) productsOf(t *graph.Trace) (float64, error) {
	if p.Experiment.Staged == nil {
		return 0, nil
	}
	made, err := costmodel.MadeOf(p.Experiment.Machine, p.Experiment.Staged, p.Experiment.Graph.Ranks())
	if err != nil {
		return 0, err
	}
	var busy float64
	for i, tasks := range t.Graph.Counts() {
		class := &t.Graph.Classes[i]
		if !class.Kind.Compute() {
			continue
		}
		var products, all time.Duration
		for _, share := range made(class) {
			all += share.Time
			if costmodel.IsProducts(share) {
				products += share.Time
			}
		}
		if all > 0 {
			busy += float64(tasks) * t.Prices[i].Busy.Seconds() * products.Seconds() / all.Seconds()
		}
	}
	ranks := float64(t.Graph.Ranks()) / float64(t.Graph.Replicas())
	return busy / ranks / p.Result.StepTime, nil
}

// spread returns how errors of such predictions are distributed.
func (p *Prediction) spread() intervals.Spread {
	var errors []float64 // of the site's own runs
	site, r := p.Config.Site(), &p.Result
	for _, run := range site.Runs {
		if cmp.Or(site.Device, r.Device) == r.Device && cmp.Or(site.Stack, r.Stack) == r.Stack {
			errors = append(errors, run.Error)
		}
	}
	return intervals.Fitted().Of(p.Conditions()).AtSite(errors)
}

// setInterval adds the interval of a prediction with a stack, or why there is none.
func (p *Prediction) setInterval() {
	r := &p.Result
	if r.Stack == "" || p.Experiment.Staged == nil {
		return
	}
	train := p.Config.Train
	if train.Adapts() || train.Frozen != "" || slices.Contains([]string{"adafactor", "lion", "muon"}, train.Optimizer) {
		r.IntervalMissing = "no published run with adapters, frozen parts or this optimizer is compared"
		return
	}
	if r.IntervalMissing = intervals.Published().Missing(p.Conditions()); r.IntervalMissing != "" {
		return
	}
	s := p.spread()
	i := r.AddInterval()
	i.Coverage, i.From, i.Runs, i.Sources = intervals.Nominal, s.Class, s.Runs, s.Sources
	p.setEnds(s)
}

// setEnds sets the ends of the interval.
func (p *Prediction) setEnds(s intervals.Spread) {
	low, high := s.Factors()
	p.Result.Interval.Low, p.Result.Interval.High = low*p.Result.StepTime, high*p.Result.StepTime
}

// leastSaid is by how much of a step a setting has to change it to be worth a word.
const leastSaid = 0.005

// AddUnsaid predicts the step with each setting that the program of the stack has a flag for and that the
// configuration does not say, and widens the interval by what these make of it, as if each were as likely as the
// stack's default. A setting that does not go with the configuration is left out.
func (p *Prediction) AddUnsaid(ctx context.Context) error {
	r := &p.Result
	if r.Interval == nil {
		return nil
	}
	spread := p.spread()
	for _, set := range p.Config.Unsaid() {
		c, err := p.Config.With(set)
		if err != nil {
			continue
		}
		other, err := Estimate(ctx, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || other.Result.StepTime <= 0 || math.Abs(other.Result.StepTime/r.StepTime-1) < leastSaid {
			continue
		}
		spread = spread.Or(other.Result.StepTime / r.StepTime)
		r.Interval.Unsaid = append(r.Interval.Unsaid, results.WhatIf{
			Set: []string{set}, StepTime: other.Result.StepTime, PeakMemory: other.Result.PeakMemory(),
			MemoryVerdict: other.Result.MemoryVerdict,
		})
	}
	far := func(u results.WhatIf) float64 { return math.Abs(math.Log(u.StepTime / r.StepTime)) }
	slices.SortStableFunc(r.Interval.Unsaid, func(a, b results.WhatIf) int {
		return cmp.Compare(far(b), far(a))
	})
	p.setEnds(spread)
	return nil
}
