// Package costmodel says what the tasks of a graph cost: how long they take
// and how they change the memory in use.
//
// There are four sources of costs, all giving a [graph.Costs]:
//
//   - [Times], explicit durations, which need neither a network nor a machine;
//   - [StepCosts], a network of package arch trained on a [Machine];
//   - [RingCosts], the links of a machine alone, for spelled-out collectives;
//   - [Profiled], what every task took when it was measured alone.
//
// A compute task takes the sum over its operations of a launch cost and the
// longer of computing and moving memory (a roofline) at achievable rates; a layer
// that was [Measured] on the device takes what it took. A
// message takes latency plus bytes over bandwidth, and queues for its link. A
// fused collective takes what was measured on its link, or else the closed form of
// an algorithm.
//
// A rank stands for the devices of one tensor-parallel group, which do all the
// same: memory, FLOPs and bytes are those of one of them, and what they exchange
// is part of a task's time (see [graph.Inner]).
package costmodel

import (
	"fmt"
	"time"

	"psim/costmodel/memory"
	"psim/costmodel/stages"
	"psim/internal/units"
	"psim/schedules/graph"
)

// StepCosts prices the tasks of a graph that was wired from a plan, on a machine.
func StepCosts(m Machine, p *stages.Plan, g *graph.Graph) (graph.Costs, error) {
	compute, err := m.slowest(g.Ranks()).Compute(p.Training)
	if err != nil {
		return graph.Costs{}, err
	}
	if err := m.check(g); err != nil {
		return graph.Costs{}, err
	}
	passes, err := newPassPrices(compute, m.Host, p, g)
	if err != nil {
		return graph.Costs{}, err
	}
	collective, updates, ledger := m.collectives(p, g), newUpdates(m, compute, p, g), memory.NewLedger(p, g)
	if err := m.checkTimes(g, collective, updates); err != nil {
		return graph.Costs{}, err
	}
	price := func(t *graph.Task) graph.Cost {
		var c graph.Cost
		switch k := t.Kind; {
		case k.Compute():
			c = passes.task(t)
		case k == graph.SendForward, k == graph.SendBackward:
			c = m.message(t)
		case k.Collective():
			c.Busy = collective(t)
		case k == graph.Average:
			c.Busy = updates.average(t)
		case k == graph.Optimizer:
			c.Busy = updates.step(t)
		}
		c.BytesAtStart, c.BytesAtEnd = ledger.Task(t)
		return c
	}
	costs := graph.Costs{Task: price, Persistent: memory.Persistent(p, g.Ranks()), Host: m.threads(g)}
	if costs.Host != nil {
		costs.Task = passes.withLaunches(m.Host, compute, price)
	}
	return costs, nil
}

// collectives returns the times of a graph's collectives.
func (m *Machine) collectives(p *stages.Plan, g *graph.Graph) func(*graph.Task) time.Duration {
	groups, exchanges := m.groups(g), m.allToAlls(p, g)
	return func(t *graph.Task) time.Duration {
		if t.Kind == graph.AllToAll {
			return exchanges[t.Peer].time(t.Bytes)
		}
		return groups[t.Peer].CollectiveTime(t.Kind, g.Members(t.Peer), t.Bytes)
	}
}

// RingCosts prices a spelled-out ring on a machine. What arrives is added or
// copied while it is received, so only sending takes time.
func RingCosts(m Machine, g *graph.Graph) (graph.Costs, error) {
	if err := m.check(g); err != nil {
		return graph.Costs{}, err
	}
	if err := m.checkMessages(g); err != nil {
		return graph.Costs{}, err
	}
	return graph.Costs{Task: func(t *graph.Task) graph.Cost {
		if t.Kind.Message() {
			return m.message(t)
		}
		return graph.Cost{}
	}}, nil
}

// check reports that the machine lacks a link that the graph needs.
func (m *Machine) check(g *graph.Graph) error {
	what, devices := "ranks", g.Ranks()*m.Devices()
	if m.Devices() > 1 {
		what = "devices"
	}
	for _, size := range []int{m.tensor(), m.Devices()} {
		if n := m.DevicesPerNode; n > 0 && n%size != 0 && size%n != 0 {
			keys := "parallel.tensor"
			if size != m.tensor() {
				keys += " × parallel.context"
			}
			return fmt.Errorf("devices_per_node = %d: some groups of %s = %d would be in two nodes; one must divide the other", n, keys, size)
		}
	}
	if devices > 1 && m.Link.Bandwidth == 0 && m.DevicesPerNode != 1 {
		return fmt.Errorf("link: %d %s need one between them; name it, such as link = \"pcie4\" (psim list devices), or give [machine.link] bandwidth and latency", devices, what)
	}
	if nodes := m.Nodes(g.Ranks()); nodes > 1 && m.Network.Bandwidth == 0 {
		return fmt.Errorf("network: %d %s take %d nodes (devices_per_node = %d), and no network joins them; name one, such as network = \"ib-hdr\"",
			devices, what, nodes, m.DevicesPerNode)
	}
	return nil
}

// message prices a transfer between two ranks.
func (m *Machine) message(t *graph.Task) graph.Cost {
	l, queue := m.Between(t.Rank, t.Peer)
	return graph.Cost{Busy: l.Transfer(t.Bytes), Delay: time.Duration(l.Latency), Link: queue}
}

// passPrices hold the prices of F, B, I and W.
type passPrices struct {
	plan    *stages.Plan
	prices  [][]price // by stage and size of microbatch
	sliced  stages.Sliced
	slices  []slicePrices // of backwards, by stage and copy
	weights []slicePrices // of weight gradients, which an order may have beside backwards
	inputs  []slicePrices // of input gradients, likewise
	ahead   []slicePrices // of forwards, by stage
	cuts    []graph.Task  // those that these were priced for
	copyOf  func(stage, microbatch int32) int
}

// slicePrices hold the prices of a pass that is cut, by size of microbatch.
type slicePrices struct {
	times    [][]time.Duration
	inner    [][]graph.Inner
	launches [][]launch
}

// newPassPrices prices every stage for every distinct size of microbatch. It refuses
// times that are cut off at the longest that can be added.
func newPassPrices(c Compute, h Host, p *stages.Plan, g *graph.Graph) (*passPrices, error) {
	copies := len(p.Stages) + len(g.Placement.Second)
	list := &passPrices{
		plan: p, sliced: stages.SlicedIn(g), copyOf: g.Placement.Copy, ahead: make([]slicePrices, len(p.Stages)),
		slices: make([]slicePrices, copies), weights: make([]slicePrices, copies), inputs: make([]slicePrices, copies),
	}
	layers := layerPrices(c, p)
	for s := range p.Stages {
		var prices []price
		for size, n := range p.Sizes {
			price := taskPrice(c, p, s, layers[s][size], n)
			if price.time.forward >= units.Longest || price.time.backward >= units.Longest {
				return nil, fmt.Errorf("compute: stage %d would take more than %.0f hours for a microbatch on this device; check its rates and launch cost", s, units.Longest.Hours())
			}
			prices = append(prices, price)
		}
		list.prices = append(list.prices, prices)
	}
	for i := range g.Tasks {
		if t := &g.Tasks[i]; t.Kind.Compute() && t.Part > 0 {
			list.slice(c, h, t)
		}
	}
	return list, nil
}

// slice prices the parts of a pass, for every size of microbatch, unless they are known.
func (p *passPrices) slice(c Compute, h Host, t *graph.Task) {
	cut := p.parts(t)
	if cut.times != nil {
		return
	}
	for _, other := range p.cuts {
		if other.Kind == t.Kind && p.plan.Alike(int(other.Stage), int(t.Stage)) {
			*cut = *p.parts(&other)
			return
		}
	}
	p.cuts = append(p.cuts, *t)
	for size, n := range p.plan.Sizes {
		times, launches := slice(c, h, p.plan, t.Kind, int(t.Stage), n)
		inner := p.prices[t.Stage][size].inner.of(t.Kind)
		cut.times, cut.inner, cut.launches = append(cut.times, times), append(cut.inner, spread(*inner, times)), append(cut.launches, launches)
	}
}

// parts finds the prices of the parts of F, B, I or W.
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

// cut finds the prices of the parts of a pass that is cut; nil for other tasks.
func (p *passPrices) cut(t *graph.Task) *slicePrices {
	if p.sliced.Has(t) {
		return p.parts(t)
	}
	return nil
}

// task prices F, B, I or W, or a slice of one.
func (p *passPrices) task(t *graph.Task) graph.Cost {
	size := p.plan.SizeOf(t)
	if cut := p.cut(t); cut != nil {
		return graph.Cost{Busy: cut.times[size][t.Part], Inner: some(&cut.inner[size][t.Part])}
	}
	price := &p.prices[t.Stage][size]
	return graph.Cost{Busy: *price.time.of(t.Kind), Inner: some(price.inner.of(t.Kind))}
}
