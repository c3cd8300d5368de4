package costmodel

import (
	"time"

	"psim/costmodel/stages"
	"psim/internal/units"
)

// taskPrice returns what a stage costs for a microbatch: a share of the whole batch's
// price where the stage takes all microbatches at once.
func taskPrice(c Compute, plan *stages.Plan, stage int, samples int64) price {
	if !plan.Whole(stage) {
		return priceOf(c, plan, stage, samples)
	}
	all := plan.Batch()
	p := priceOf(c, plan, stage, all)
	for _, t := range []*time.Duration{&p.forward, &p.input, &p.weight, &p.recompute, &p.whole} {
		*t = share(*t, samples, all)
	}
	return p
}

// taskLaunch returns what launching a stage's kernels takes, shared likewise.
func taskLaunch(c Compute, h Host, plan *stages.Plan, stage int, samples int64) launches {
	if !plan.Whole(stage) {
		return launchesOf(c, h, plan, stage, samples)
	}
	all := plan.Batch()
	l := launchesOf(c, h, plan, stage, all)
	for _, pass := range []*launch{&l.forward, &l.input, &l.weight, &l.backward} {
		pass.thread, pass.lead = share(pass.thread, samples, all), share(pass.lead, samples, all)
	}
	return l
}

// share returns the part of the time of all samples that some have.
func share(t time.Duration, samples, all int64) time.Duration {
	return units.Nanoseconds(float64(t) * float64(samples) / float64(all))
}
