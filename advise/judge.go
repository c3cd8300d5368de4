package advise

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"psim"
	"psim/intervals"
	"psim/results"
	"psim/results/judged"
)

// mostClock is how much faster than the catalog's a device of a site may be; and without an interval a step is
// inside if it is off by less than usualError.
const (
	mostClock  = 1.15
	usualError = 0.1
)

// Judge holds a measured step, in seconds, against a prediction. progress, which may be nil, is called before each
// change.
func Judge(
	ctx context.Context, p *psim.Prediction, measured float64, progress func(number, of int, set []string),
) (judged.Judgment, error) {
	r := &p.Result
	h := judged.Judgment{Measured: measured, Predicted: r.StepTime, Missing: r.IntervalMissing}
	low, high := r.StepTime*(1-usualError), r.StepTime*(1+usualError)
	if i := r.Interval; i != nil {
		low, high = i.Low, i.High
		h.Interval = &judged.Interval{
			Low: low, High: high, Coverage: i.Coverage, From: i.From, Runs: i.Runs, Sources: i.Sources,
		}
	}
	if r.HFU > 0 {
		h.Rate = r.HFU * r.StepTime / measured
		h.Reach = p.Experiment.Machine.Device.RateIn(p.Config.Train.Precision).Share
	}
	switch {
	case h.Reach > 0 && h.Rate > min(1, mostClock*h.Reach):
		h.Verdict = judged.Inconsistent
	case measured > high:
		h.Verdict = judged.Slow
	case measured < low:
		h.Verdict = judged.Fast
	default:
		h.Verdict = judged.Inside
	}
	if err := assume(ctx, &h, p); err != nil {
		return h, err
	}
	if h.Verdict == judged.Inconsistent {
		return h, nil // changes of a run that cannot have been
	}
	changes, _, err := WhatIf(ctx, p, progress)
	for _, c := range changes {
		if c.StepTime < (1-leastGain)*r.StepTime && c.MemoryVerdict != results.DoesNotFit && !outside(c.Set, r.Stack) {
			there := measured * c.StepTime / r.StepTime
			h.Changes = append(h.Changes, judged.Gain{
				Set: c.Set, StepTime: c.StepTime, MeasuredStep: there, Faster: fasterThan(r, c.StepTime),
			})
		}
	}
	return h, err
}

// leastGain is how much a change has to shorten the step to be named.
const leastGain = 0.002

// fasterThan returns the probability that a run of a plan with another predicted step is faster than one of the
// prediction: what psim gets wrong about the machine and the program is the same for both, and the rest is as in
// published runs. It is nil where the prediction has no interval.
func fasterThan(r *results.Result, step float64) *float64 {
	if r.Interval == nil {
		return nil
	}
	chances := intervals.Published().Best([]intervals.Contender{
		{Stack: r.Stack, Step: r.StepTime}, {Stack: r.Stack, Step: step},
	})
	return &chances[1]
}

// outside reports whether a change asks for another machine, or for kernels that no flag of the stack's
// program asks for.
func outside(sets []string, stack string) bool {
	return slices.ContainsFunc(sets, func(set string) bool {
		kernels := strings.HasPrefix(set, "model.kernels=") || strings.HasPrefix(set, "model.loss=") ||
			strings.HasPrefix(set, "model.code=")
		return strings.HasPrefix(set, "machine.") || stack != "" && kernels
	})
}

// An assumed setting is one that logs and scripts often do not say.
type assumed struct{ set, means string }

// The settings that may make a step longer, and those that may make it shorter.
var (
	slower = []assumed{
		{"model.attention=unfused", "attention writes its scores, without a fused kernel"},
		{"train.recompute=full", "every block is computed again in the backward"},
		{"parallel.overlap=false", "gradients are summed after the backward, not during it"},
		{"parallel.tensor_overlap=false", "exchanges of tensor groups wait for weight gradients"},
		{"parallel.overlap_gather=false", "updated parameters are gathered before the forward, not during it"},
		{"machine.nics_per_node=1", "one network card of a node works"},
		{"machine.network.speedup=0.5", "the network between nodes gives half of its bandwidth"},
		{"machine.link.speedup=0.5", "the link inside nodes gives half of its bandwidth"},
		{"machine.clock=0.9", "devices are a tenth slower, as under a cap on power"},
		{"machine.spread=0.05", "nodes differ in speed by 5 %, and all wait for the slowest"},
		{"model.imbalance=1.5", "the busiest experts have half as many rows again as the mean"},
	}
	faster = []assumed{
		{"model.attention=flash", "attention is a fused kernel"},
		{"train.recompute=none", "nothing is computed again in the backward"},
		{"train.recompute=selective", "only attention is computed again in the backward"},
		{"parallel.overlap=true", "gradients are summed during the backward"},
		{"machine.clock=1.1", "devices are a tenth faster than the catalog's"},
		{"train.precision=fp8", "products run in 8 bits"},
		{"model.dropout=0", "nothing is dropped"},
	}
)

// assume predicts the step under other settings that the run may have had, and keeps those that come nearer to
// the measured one.
func assume(ctx context.Context, h *judged.Judgment, p *psim.Prediction) error {
	list := slower
	if h.Measured < h.Predicted {
		list = faster
	}
	if h.Verdict == judged.Inside {
		return nil
	}
	off := func(step float64) float64 { return math.Abs(math.Log(step / h.Measured)) }
	for _, a := range list {
		c, err := p.Config.With(a.set)
		if err != nil {
			continue // it does not go with the configuration
		}
		variant, err := psim.Estimate(ctx, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || variant.Result.StepTime <= 0 || samplesOf(variant) != samplesOf(p) {
			continue
		}
		if step := variant.Result.StepTime; off(step) < off(h.Predicted)-0.005 {
			h.Assumptions = append(
				h.Assumptions, judged.Assumption{Set: []string{a.set}, Means: a.means, StepTime: step},
			)
		}
	}
	slices.SortStableFunc(h.Assumptions, func(a, b judged.Assumption) int {
		return cmp.Compare(off(a.StepTime), off(b.StepTime))
	})
	return nil
}
