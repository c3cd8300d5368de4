package costmodel

import (
	"time"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A price is the cost of a stage for one size of microbatch.
type price struct {
	time      byPass[time.Duration]
	recompute time.Duration // before I or B
	// inner is the communication among the devices of the rank in each pass.
	inner byPass[graph.Inner]
}

// byPass holds one value for each pass of a stage over a microbatch, and for the loss where it is
// a task of its own. The whole backward may take less time than its halves. Both it and I begin by repeating forwards.
type byPass[T any] struct{ forward, input, weight, backward, loss T }

// of finds the value for F, I, W, B or a loss.
func (p *byPass[T]) of(k graph.Kind) *T {
	switch k {
	case graph.Forward:
		return &p.forward
	case graph.InputGradient:
		return &p.input
	case graph.WeightGradient:
		return &p.weight
	case graph.Loss:
		return &p.loss
	}
	return &p.backward
}

// unsplit gives all of the backward to W, and nothing to I.
func (p *byPass[T]) unsplit() {
	var nothing T
	p.input, p.weight = nothing, p.backward
}

// priceOf prices a layer for a microbatch of the given number of samples. Recomputation is
// not part of the times.
func (c *Compute) priceOf(l network.Layer, t training.Options, samples int64) price {
	p := c.timesOf(l, t, samples)
	p.exchange(c, l, t, samples)
	return p
}

// timesOf prices a layer as priceOf does, without the communication inside the rank.
func (c *Compute) timesOf(l network.Layer, t training.Options, samples int64) (p price) {
	p.time.forward = c.Layer(l, network.Forward, samples)
	p.time.input = c.Layer(l, network.InputGradient, samples)
	p.time.weight = c.Layer(l, network.WeightGradient, samples)
	p.time.backward = c.backward(l, samples, p.time.input, p.time.weight)
	p.recompute = c.Recompute(l, t, samples)
	return p
}

// pricesOf prices layers. Layers that compute the same are priced once.
func (c *Compute) pricesOf(layers []network.Layer, t training.Options, samples int64) []price {
	return byKind(layers, func(l network.Layer) price { return c.priceOf(l, t, samples) })
}

// byKind returns what a function makes of every layer. It is called once for layers that compute the same.
func byKind[T any](layers []network.Layer, of func(network.Layer) T) []T {
	list, same := make([]T, len(layers)), network.Same(layers)
	for i, l := range layers {
		if k := same[i]; k < i {
			list[i] = list[k]
		} else {
			list[i] = of(l)
		}
	}
	return list
}

// layerPrices prices the layers of every stage, by stage and size of microbatch. The layers of
// a stage that takes all microbatches at once are priced for the whole batch.
func (p *pricer) layerPrices() [][][]price {
	c, staged := p.compute, p.staged
	list := make([][][]price, len(staged.Stages))
	for _, n := range staged.Sizes {
		whole, first := c.pricesOf(staged.Network.Layers, staged.Training, n), 0
		for s := range staged.Stages {
			layers := whole[first : first+len(staged.Stages[s].Layers)]
			first += len(layers)
			if staged.TakesAll(s) {
				layers = c.pricesOf(staged.Stages[s].Layers, staged.Training, staged.Batch(0))
			}
			list[s] = append(list[s], layers)
		}
	}
	return list
}

// A LayerTime holds the times of a layer for one microbatch, by itself. The time of a stage is
// at least the sum of these over its layers. Backward and Input begin with recomputation.
type LayerTime struct{ Forward, Backward, Input, Weight time.Duration }

// LayerTimes prices the layers of a workload for its first microbatch, in whatever stages they
// are, on the given number of ranks.
func LayerTimes(m Machine, w stages.Workload, ranks int) ([]LayerTime, error) {
	c, err := m.slowest(ranks).Compute(w.Training)
	if err != nil {
		return nil, err
	}
	return byKind(w.Network.Layers, func(l network.Layer) LayerTime {
		one := c.timesOf(l, w.Training, w.Samples[0])
		return LayerTime{
			Forward: one.time.forward, Backward: units.Sum(one.recompute, one.time.backward),
			Input: units.Sum(one.recompute, one.time.input), Weight: one.time.weight,
		}
	}), nil
}

// plus adds the price of a layer.
func (p *price) plus(l *price) {
	for _, k := range []graph.Kind{graph.Forward, graph.InputGradient, graph.WeightGradient, graph.Backward} {
		time, inner := p.time.of(k), p.inner.of(k)
		*time, *inner = units.Sum(*time, *l.time.of(k)), inner.Plus(*l.inner.of(k))
	}
	p.recompute = units.Sum(p.recompute, l.recompute)
}

// takeLossOut moves the forward of the last layer, which is the loss, out of F.
func (p *price) takeLossOut(loss *price) {
	p.time.loss, p.inner.loss = loss.time.forward, loss.inner.forward
	p.time.forward -= p.time.loss
	p.inner.forward = p.inner.forward.Less(p.inner.loss)
}

// stagePrice adds up the prices of a stage's layers and of what the stage does besides, for a
// microbatch of the given number of samples. Recomputation is not part of the times.
func (p *pricer) stagePrice(stage int, layers []price, samples int64) price {
	var sum price
	for i := range layers {
		sum.plus(&layers[i])
	}
	if p.staged.LossApart(stage) {
		sum.takeLossOut(&layers[len(layers)-1])
	}
	copies := p.copies(stage)
	for _, t := range []*time.Duration{&sum.time.forward, &sum.time.input, &sum.time.backward} {
		*t = units.Sum(*t, copies)
	}
	sum.gather(p.received(stage, stage-1, samples), p.received(stage, stage+1, samples))
	return sum
}

// copies returns the time to copy gathered parameters into their tensors before a pass, where
// ZeRO 3 does that: every parameter is read and written. Narrow weights are made of them then.
func (p *pricer) copies(stage int) time.Duration {
	staged := p.staged
	if !staged.Gathers() {
		return 0
	}
	var moved int64
	for _, owner := range staged.Stages[stage].Units {
		if staged.Copied {
			st := &staged.Stages[owner]
			moved += 2 * (st.Parameters*staged.PerParameter.Parameter + st.Frozen.Bytes(int64(p.compute.element)))
		}
		if narrow := staged.Stages[owner].Narrow; narrow > 0 {
			moved += staged.Training.CastBytes(narrow)
		}
	}
	return p.compute.Move(moved)
}

// taskPrice returns the price of a stage for a microbatch. For a stage that takes all
// microbatches at once that is a share of the whole batch's price.
func (p *pricer) taskPrice(stage int, layers []price, samples int64) price {
	priced := samples
	if p.staged.TakesAll(stage) {
		priced = p.staged.Batch(0)
	}
	sum := p.stagePrice(stage, layers, priced)
	times := &sum.time
	if priced != samples {
		for _, t := range []*time.Duration{
			&times.forward, &times.input, &times.weight, &times.backward, &times.loss, &sum.recompute,
		} {
			*t = share(*t, samples, priced)
		}
	}
	times.input, times.backward = units.Sum(sum.recompute, times.input), units.Sum(sum.recompute, times.backward)
	return sum
}

// taskLaunch returns the time to launch a stage's kernels for a microbatch, which is also a
// share where the stage takes all microbatches at once.
func (p *pricer) taskLaunch(stage int, samples int64) byPass[launch] {
	if !p.staged.TakesAll(stage) {
		return p.stageLaunch(stage, samples)
	}
	all := p.staged.Batch(0)
	l := p.stageLaunch(stage, all)
	for _, pass := range []*launch{&l.forward, &l.input, &l.weight, &l.backward, &l.loss} {
		pass.thread, pass.lead = share(pass.thread, samples, all), share(pass.lead, samples, all)
	}
	return l
}

// share returns the share that some samples have in the time of all.
func share(t time.Duration, samples, all int64) time.Duration {
	return units.Nanoseconds(float64(t) * float64(samples) / float64(all))
}
