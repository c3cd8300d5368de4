package costmodel

import (
	"slices"
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
	copies := c.copies(plan, stage)
	for _, t := range []*time.Duration{&p.time.forward, &p.time.input, &p.time.backward} {
		*t = units.Sum(*t, copies)
	}
	p.gather(received(c, plan, stage, stage-1, samples), received(c, plan, stage, stage+1, samples))
	return p
}

// copies prices the copying of what was gathered for a pass into its tensors, where ZeRO 3
// does that: reading and writing every parameter.
func (c Compute) copies(plan *stages.Plan, stage int) time.Duration {
	if !plan.Copied || !plan.Gathers() {
		return 0
	}
	var parameters int64
	for _, owner := range plan.Stages[stage].Units {
		parameters += plan.Stages[owner].Parameters
	}
	return c.Move(2 * parameters * plan.PerParameter.Parameter)
}

// slice cuts a stage's B or W where each of its gradient buckets is complete: a
// layer's time is spread over its own tensors by their size, and a layer without any
// counts towards the next tensor.
func slice(c Compute, plan *stages.Plan, k graph.Kind, stage int, samples int64) []time.Duration {
	st := &plan.Stages[stage]
	var progress []progressPoint // time done when so many gradient bytes are complete
	var done time.Duration
	if k == graph.Backward {
		done = received(c, plan, stage, stage+1, samples).Exposed
	}
	var bytes int64
	for i, l := range slices.Backward(st.Layers) {
		if k == graph.Backward {
			done = units.Sum(done, c.Backward(l, samples), c.Recompute(l, plan.Training, samples))
		} else {
			done = units.Sum(done, c.Layer(l, arch.WeightGradient, samples))
		}
		own := int64(0)
		for _, t := range st.Held[i] {
			own += t.Shape.Elements() * plan.PerParameter.Gradient
		}
		if own > 0 {
			bytes += own
			progress = append(progress, progressPoint{bytes, done})
		}
	}
	times := make([]time.Duration, len(st.Buckets))
	var complete int64
	var before time.Duration
	for k, b := range st.Buckets {
		complete += b.Bytes
		at := timeAt(progress, complete)
		if k == len(st.Buckets)-1 {
			at = done
		}
		times[k] = at - before
		before = at
	}
	return times
}

// cutForward cuts a stage's F at the pieces of layers whose parameters are gathered
// beside it. The gathering of what it received comes first.
func cutForward(c Compute, plan *stages.Plan, stage int, samples int64) []time.Duration {
	st := &plan.Stages[stage]
	var times []time.Duration
	layers := st.Layers
	for _, piece := range st.Ahead {
		var sum time.Duration
		for _, l := range layers[:piece.Layers] {
			sum = units.Sum(sum, c.Layer(l, arch.Forward, samples))
		}
		times, layers = append(times, sum), layers[piece.Layers:]
	}
	times[0] = units.Sum(times[0], received(c, plan, stage, stage-1, samples).Exposed)
	return times
}

// progressPoint says that after a time so many bytes of gradients are there.
type progressPoint struct {
	bytes int64
	time  time.Duration
}

// timeAt interpolates the time at which a number of bytes is complete.
func timeAt(points []progressPoint, bytes int64) time.Duration {
	var from progressPoint
	for _, to := range points {
		if bytes <= to.bytes {
			share := float64(bytes-from.bytes) / float64(to.bytes-from.bytes)
			return from.time + time.Duration(share*float64(to.time-from.time))
		}
		from = to
	}
	return from.time
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
