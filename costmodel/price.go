package costmodel

import (
	"time"

	"psim/costmodel/arch"
	"psim/costmodel/stages"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A price is what a stage costs for one size of microbatch.
type price struct {
	time      byPass[time.Duration]
	recompute time.Duration // before I or B
	// inner is what the devices of the rank exchange in each pass.
	inner byPass[graph.Inner]
}

// byPass tells apart the passes of a stage over a microbatch. The whole backward may
// be less than its halves, and both it and I begin with what is repeated.
type byPass[T any] struct{ forward, input, weight, backward T }

// of finds what is known of F, I, W or B.
func (p *byPass[T]) of(k graph.Kind) *T {
	switch k {
	case graph.Forward:
		return &p.forward
	case graph.InputGradient:
		return &p.input
	case graph.WeightGradient:
		return &p.weight
	}
	return &p.backward
}

// priceOf prices a stage for a microbatch of the given number of samples, with
// recomputation apart.
func priceOf(c Compute, plan *stages.Plan, stage int, samples int64) price {
	var p price
	for _, l := range plan.Stages[stage].Layers {
		p.time.forward = units.Sum(p.time.forward, c.Layer(l, arch.Forward, samples))
		p.time.input = units.Sum(p.time.input, c.Layer(l, arch.InputGradient, samples))
		p.time.weight = units.Sum(p.time.weight, c.Layer(l, arch.WeightGradient, samples))
		p.time.backward = units.Sum(p.time.backward, c.Backward(l, samples))
		p.recompute = units.Sum(p.recompute, c.Recompute(l, plan.Training, samples))
		p.exchange(c, l, plan.Training, samples)
	}
	p.gather(received(c, plan, stage, stage-1, samples), received(c, plan, stage, stage+1, samples))
	return p
}

// taskPrice returns what a stage costs for a microbatch: a share of the whole batch's
// price where the stage takes all microbatches at once.
func taskPrice(c Compute, plan *stages.Plan, stage int, samples int64) price {
	priced := samples
	if plan.Whole(stage) {
		priced = plan.Batch(0)
	}
	p := priceOf(c, plan, stage, priced)
	times := &p.time
	if priced != samples {
		for _, t := range []*time.Duration{&times.forward, &times.input, &times.weight, &times.backward, &p.recompute} {
			*t = share(*t, samples, priced)
		}
	}
	times.input, times.backward = units.Sum(p.recompute, times.input), units.Sum(p.recompute, times.backward)
	return p
}

// taskLaunch returns what launching a stage's kernels takes, shared likewise.
func taskLaunch(c Compute, h Host, plan *stages.Plan, stage int, samples int64) byPass[launch] {
	if !plan.Whole(stage) {
		return launchesOf(c, h, plan, stage, samples)
	}
	all := plan.Batch(0)
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
