package costmodel

import (
	"time"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
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

// priceOf prices a layer for a microbatch of the given number of samples, with
// recomputation apart.
func (c Compute) priceOf(l network.Layer, t training.Options, samples int64) price {
	var p price
	p.time.forward = c.Layer(l, network.Forward, samples)
	p.time.input = c.Layer(l, network.InputGradient, samples)
	p.time.weight = c.Layer(l, network.WeightGradient, samples)
	p.time.backward = c.Backward(l, samples)
	p.recompute = c.Recompute(l, t, samples)
	p.exchange(c, l, t, samples)
	return p
}

// pricesOf prices layers, of which those that compute the same are priced once.
func (c Compute) pricesOf(layers []network.Layer, t training.Options, samples int64) []price {
	prices := make([]price, len(layers))
	same := network.Same(layers)
	for i, l := range layers {
		if k := same[i]; k < i {
			prices[i] = prices[k]
		} else {
			prices[i] = c.priceOf(l, t, samples)
		}
	}
	return prices
}

// layerPrices prices the layers of every stage, by stage and size of microbatch; of one
// that takes all microbatches at once, for these.
func layerPrices(c Compute, staged *stages.Staged) [][][]price {
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

// A LayerTime is what a layer takes for a microbatch by itself: no stage takes less than
// its layers. Backward and Input begin with what is repeated.
type LayerTime struct{ Forward, Backward, Input, Weight time.Duration }

// LayerTimes prices the layers of a network for a microbatch of some samples, whatever their
// stages, on machines of so many ranks.
func LayerTimes(m Machine, n network.Network, t training.Options, samples int64, ranks int) ([]LayerTime, error) {
	c, err := m.slowest(ranks).Compute(t)
	if err != nil {
		return nil, err
	}
	var list []LayerTime
	for _, one := range c.pricesOf(n.Layers, t, samples) {
		t := one.time
		list = append(list, LayerTime{t.forward, units.Sum(one.recompute, t.backward), units.Sum(one.recompute, t.input), t.weight})
	}
	return list, nil
}

// plus adds the price of a layer.
func (p *price) plus(l *price) {
	for _, k := range []graph.Kind{graph.Forward, graph.InputGradient, graph.WeightGradient, graph.Backward} {
		time, inner := p.time.of(k), p.inner.of(k)
		*time, *inner = units.Sum(*time, *l.time.of(k)), inner.Plus(*l.inner.of(k))
	}
	p.recompute = units.Sum(p.recompute, l.recompute)
}

// stagePrice adds up a stage, for a microbatch of the given number of samples, with
// recomputation apart. Layers are those of the stage.
func stagePrice(c Compute, staged *stages.Staged, stage int, layers []price, samples int64) price {
	var p price
	for i := range layers {
		p.plus(&layers[i])
	}
	copies := c.copies(staged, stage)
	for _, t := range []*time.Duration{&p.time.forward, &p.time.input, &p.time.backward} {
		*t = units.Sum(*t, copies)
	}
	p.gather(received(c, staged, stage, stage-1, samples), received(c, staged, stage, stage+1, samples))
	return p
}

// copies prices the copying of what was gathered for a pass into its tensors, where ZeRO 3
// does that: reading and writing every parameter. Narrow weights are made of them then.
func (c Compute) copies(staged *stages.Staged, stage int) time.Duration {
	if !staged.Gathers() {
		return 0
	}
	var moved int64
	for _, owner := range staged.Stages[stage].Units {
		if staged.Copied {
			moved += 2 * staged.Stages[owner].Parameters * staged.PerParameter.Parameter
		}
		if narrow := staged.Stages[owner].Narrow; narrow > 0 {
			moved += staged.Training.CastBytes(narrow)
		}
	}
	return c.Move(moved)
}

// taskPrice returns what a stage costs for a microbatch: a share of the whole batch's
// price where the stage takes all microbatches at once.
func taskPrice(c Compute, staged *stages.Staged, stage int, layers []price, samples int64) price {
	priced := samples
	if staged.TakesAll(stage) {
		priced = staged.Batch(0)
	}
	p := stagePrice(c, staged, stage, layers, priced)
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
func taskLaunch(c Compute, h HostTimes, known *walks, staged *stages.Staged, stage int, samples int64) byPass[launch] {
	if !staged.TakesAll(stage) {
		return launchesOf(c, h, known, staged, stage, samples)
	}
	all := staged.Batch(0)
	l := launchesOf(c, h, known, staged, stage, all)
	for _, pass := range []*launch{&l.forward, &l.input, &l.weight, &l.backward} {
		pass.thread, pass.lead = share(pass.thread, samples, all), share(pass.lead, samples, all)
	}
	return l
}

// share returns the part of the time of all samples that some have.
func share(t time.Duration, samples, all int64) time.Duration {
	return units.Nanoseconds(float64(t) * float64(samples) / float64(all))
}
