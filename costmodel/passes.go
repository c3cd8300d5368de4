package costmodel

import (
	"fmt"
	"sync"
	"time"

	"psim/costmodel/stages"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A pricer prices the stages of a plan on a device, and the host's time to launch them.
type pricer struct {
	compute Compute
	host    HostTimes
	staged  *stages.Staged
	walks   *walks // results of earlier walks, which layers with the same operations share
}

// passPrices hold the prices of F, B, I and W, and of losses.
type passPrices struct {
	pricer
	prices [][]price // by stage and size of microbatch
	copyOf func(stage, microbatch int32) int

	// The mutex guards the walks and the fields below. They are filled when a graph first
	// needs them.
	mutex    sync.Mutex
	launches [][]byPass[launch] // by stage and size of microbatch
	slices   []slicePrices      // of backwards, by stage and copy
	weights  []slicePrices      // of weight gradients, by stage and copy
	inputs   []slicePrices      // of input gradients, by stage and copy
	ahead    []slicePrices      // of forwards, by stage
	cuts     []graph.Task       // tasks whose slices have been priced
}

// slicePrices hold the prices of the slices of a pass, by size of microbatch.
type slicePrices struct {
	times    [][]time.Duration
	inner    [][]graph.Inner
	launches [][]launch
}

// newPassPrices prices every stage for every distinct size of microbatch. It refuses times
// that reach the longest one that can be added.
func newPassPrices(c Compute, h HostTimes, staged *stages.Staged, at graph.Placement) (*passPrices, error) {
	copies := len(staged.Stages) + len(at.Second)
	list := &passPrices{
		pricer: pricer{c, h, staged, &walks{}}, copyOf: at.Copy, ahead: make([]slicePrices, len(staged.Stages)),
		slices: make([]slicePrices, copies), weights: make([]slicePrices, copies), inputs: make([]slicePrices, copies),
	}
	layers := list.layerPrices()
	for s := range staged.Stages {
		var prices []price
		for size, n := range staged.Sizes {
			price := list.taskPrice(s, layers[s][size], n)
			if staged.Unsplit(s) {
				price.time.unsplit()
				price.inner.unsplit()
			}
			if price.time.forward >= units.Longest || price.time.backward >= units.Longest {
				return nil, fmt.Errorf("compute: stage %d would take more than %.0f hours for a microbatch "+
					"on this device; check its rates and launch cost", s, units.Longest.Hours())
			}
			prices = append(prices, price)
		}
		list.prices = append(list.prices, prices)
	}
	return list, nil
}

// graphPasses holds the prices of the passes of one graph.
type graphPasses struct {
	*passPrices
	sliced   stages.Sliced
	launched bool
}

// in prices the slices of a graph's passes, and their launches if launching takes time.
func (p *passPrices) in(g *graph.Graph, launched bool) graphPasses {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for i := range g.Classes {
		if t := &g.Classes[i]; t.Kind.Compute() && t.Part > 0 {
			p.addSlices(t)
		}
	}
	for s := len(p.launches); launched && s < len(p.staged.Stages); s++ {
		if s > 0 && p.staged.SameLaunches(s-1, s) {
			p.launches = append(p.launches, p.launches[s-1])
			continue
		}
		var launches []byPass[launch]
		for _, n := range p.staged.Sizes {
			l := p.taskLaunch(s, n)
			if p.staged.Unsplit(s) {
				l.unsplit()
			}
			launches = append(launches, l)
		}
		p.launches = append(p.launches, launches)
	}
	return graphPasses{p, stages.SlicedIn(g), launched}
}

// addSlices prices the slices of a pass for every size of microbatch, unless they are known.
func (p *passPrices) addSlices(t *graph.Task) {
	cut := p.parts(t)
	if cut.times != nil {
		return
	}
	for _, other := range p.cuts {
		if other.Kind == t.Kind && p.staged.Alike(int(other.Stage), int(t.Stage)) {
			*cut = *p.parts(&other)
			return
		}
	}
	p.cuts = append(p.cuts, *t)
	for size, n := range p.staged.Sizes {
		times, launches := p.slice(t.Kind, int(t.Stage), n)
		inner := p.prices[t.Stage][size].inner.of(t.Kind)
		cut.times = append(cut.times, times)
		cut.inner = append(cut.inner, spread(*inner, times))
		cut.launches = append(cut.launches, launches)
	}
}

// parts finds the prices of the slices of F, B, I or W.
func (p *passPrices) parts(t *graph.Task) *slicePrices {
	switch copy := p.copyOf(t.Stage, t.Microbatch); t.Kind {
	case graph.Forward:
		return &p.ahead[t.Stage]
	case graph.WeightGradient:
		return &p.weights[copy]
	case graph.InputGradient:
		return &p.inputs[copy]
	default:
		return &p.slices[copy]
	}
}

// cut finds the prices of the slices of a pass, or nil for a pass that is not sliced.
func (p graphPasses) cut(t *graph.Task) *slicePrices {
	if p.sliced.Has(t) {
		return p.parts(t)
	}
	return nil
}

// task prices F, B, I, W, a slice of one, or a loss.
func (p graphPasses) task(t *graph.Task) graph.Cost {
	size, cut := p.staged.SizeOf(t), p.cut(t)
	price := &p.prices[t.Stage][size]
	c := graph.Cost{Busy: *price.time.of(t.Kind), Inner: nilIfZero(price.inner.of(t.Kind))}
	if cut != nil {
		c = graph.Cost{Busy: cut.times[size][t.Part], Inner: nilIfZero(&cut.inner[size][t.Part])}
	}
	if p.launched {
		p.launch(t, cut, &c)
	}
	return c
}

// launch adds the time of launching a task to its price.
func (p graphPasses) launch(t *graph.Task, cut *slicePrices, c *graph.Cost) {
	size := p.staged.SizeOf(t)
	l := *p.launches[t.Stage][size].of(t.Kind)
	if cut != nil {
		l = cut.launches[size][t.Part]
	}
	if message := time.Duration(p.host.Message); p.staged.Placement.Receives(t) {
		l.thread, l.lead = units.Sum(l.thread, message), units.Sum(l.lead, message)
	}
	c.Launch, c.LaunchLead = l.thread, l.lead
}
