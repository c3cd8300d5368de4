package costmodel

import (
	"math/bits"
	"time"

	"psim/costmodel/group"
	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

// What the devices of a tensor-parallel group exchange is part of the tasks of
// their rank: every device waits for it, as the next operation does.

// collectiveKinds lists the tasks that cost what a collective within a rank does.
var collectiveKinds = map[group.Pattern]graph.Kind{
	group.AllReduce: graph.AllReduce, group.AllGather: graph.AllGather, group.ReduceScatter: graph.ReduceScatter,
}

// exchange returns the time of one pass of an exchange over a microbatch.
func (c Compute) exchange(o network.Op, p network.Pass, samples int64) time.Duration {
	t := o.Exchanges[p]
	if t.Collective == group.NoCollective || t.Collective == group.AllToAll { // which is a task by itself
		return 0
	}
	if t.Collective == group.Transpose {
		return c.contexts.transpose(t.Bytes(int64(c.element), samples))
	}
	l, n := c.among(t)
	return l.CollectiveTime(collectiveKinds[t.Collective], n, t.Bytes(int64(c.element), samples))
}

// among finds how many devices take part in a transfer, and through what.
func (c Compute) among(t group.Transfer) (link.Link, int) {
	switch {
	case t.Context:
		return c.contexts.together, c.contexts.parts
	case t.Devices == 0 || t.Devices == c.devices:
		return c.link, c.devices
	case c.perNode == 0 || t.Devices <= c.perNode:
		return c.node, t.Devices
	}
	return c.link, t.Devices
}

// sent counts what every device sends in one pass of an exchange: as a ring does.
func (c Compute) sent(o network.Op, p network.Pass, samples int64) int64 {
	t := o.Exchanges[p]
	_, devices := c.among(t)
	n := int64(devices)
	if t.Collective == group.NoCollective || t.Collective == group.AllToAll || n < 2 {
		return 0
	}
	bytes := t.Bytes(int64(c.element), samples)
	if t.Collective == group.AllReduce {
		bytes *= 2
	}
	return bytes/n*(n-1) + bytes%n*(n-1)/n
}

// communication adds up what one pass of operations exchanges, one after another.
func (c Compute) communication(ops []network.Op, p network.Pass, samples int64) (sum graph.Inner) {
	for _, o := range ops {
		sum = sum.Plus(c.within(o, p, samples))
	}
	return sum
}

// within adds up what one pass of an operation exchanges.
func (c Compute) within(o network.Op, p network.Pass, samples int64) graph.Inner {
	switch {
	case o.Class != network.Exchange && o.Passed == 0:
		return graph.Inner{}
	case o.Class != network.Exchange:
		return c.ring(o, p, samples, c.alone(o, p, samples))
	}
	took := c.exchange(o, p, samples)
	x := graph.Within{Communication: took, Exposed: took, SentBytes: c.sent(o, p, samples)}
	if o.Exchanges[p].Context {
		return graph.Inner{Within: x, Context: x}
	}
	return graph.Inner{Within: x}
}

// hidden returns how much of the time of a layer's exchanges its whole backward does not
// wait for. An exchange may run beside the products that follow it in forward order:
// what I exchanges beside their weight gradients, what W exchanges beside their input
// gradients. As much of it as those take is hidden.
func (c Compute) hidden(ops []network.Op, samples int64) time.Duration {
	var sum time.Duration
	for i, o := range ops {
		if o.Class != network.Exchange || !o.Overlapped {
			continue
		}
		var input, weight time.Duration
		for _, next := range ops[i+1:] {
			if !hides(next) {
				break
			}
			input = units.Sum(input, c.Op(next, network.InputGradient, samples))
			weight = units.Sum(weight, c.Op(next, network.WeightGradient, samples))
		}
		sum = units.Sum(sum, min(weight, c.exchange(o, network.InputGradient, samples)), min(input, c.exchange(o, network.WeightGradient, samples)))
	}
	return sum
}

// hides reports whether exchanges may run beside an operation: a product with
// parameters, of which I and W do not need each other.
func hides(o network.Op) bool { return o.Class == network.Product && o.Weight }

// some returns what is communicated, nil where that is nothing.
func some(i *graph.Inner) *graph.Inner {
	if *i == (graph.Inner{}) {
		return nil
	}
	return i
}

// exchange adds the communication of a layer.
func (p *price) exchange(c Compute, l network.Layer, t training.Options, samples int64) {
	in := func(ops []network.Op, pass network.Pass) graph.Inner { return c.communication(ops, pass, samples) }
	input, weight := in(l.Ops, network.InputGradient), in(l.Ops, network.WeightGradient)
	whole := input.Plus(weight)
	whole.Exposed -= c.hidden(l.Ops, samples)
	repeated := in(t.Repeated(l), network.Forward)
	p.inner.forward, p.inner.weight = p.inner.forward.Plus(in(l.Ops, network.Forward)), p.inner.weight.Plus(weight)
	p.inner.input, p.inner.backward = p.inner.input.Plus(repeated).Plus(input), p.inner.backward.Plus(repeated).Plus(whole)
}

// received prices the gathering of a tensor that came to a stage in parts from its
// neighbour across a boundary: the activations before its forward where the
// neighbour is the stage before, the gradients before its backward where it is
// the one after.
func received(c Compute, staged *stages.Staged, stage, neighbour int, samples int64) graph.Inner {
	boundary := min(stage, neighbour)
	parts := staged.Network.Group.Parts()
	if parts == 1 || boundary < 0 || boundary+1 == len(staged.Stages) || staged.Placement.Together(stage, neighbour) {
		return graph.Inner{}
	}
	bytes := staged.Activations(boundary, samples)
	t := c.link.CollectiveTime(graph.AllGather, parts, bytes)
	return graph.Inner{Within: graph.Within{Communication: t, Exposed: t, SentBytes: bytes / int64(parts) * int64(parts-1)}}
}

// gather adds the gathering of what a stage receives.
func (p *price) gather(activations, gradients graph.Inner) {
	for _, k := range []graph.Kind{graph.Forward, graph.InputGradient, graph.Backward} {
		received := gradients
		if k == graph.Forward {
			received = activations
		}
		time, inner := p.time.of(k), p.inner.of(k)
		*time, *inner = units.Sum(*time, received.Exposed), inner.Plus(received)
	}
}

// spread divides communication among the slices of a task, by their times.
func spread(i graph.Inner, times []time.Duration) []graph.Inner {
	parts := make([]graph.Inner, len(times))
	whole := units.Sum(times...)
	var done graph.Inner
	var at time.Duration
	for k, t := range times {
		at += t
		upTo := i
		if k < len(times)-1 {
			upTo = graph.Inner{Within: partOf(i.Within, at, whole), Context: partOf(i.Context, at, whole)}
		}
		parts[k] = upTo.Less(done)
		done = upTo
	}
	return parts
}

// partOf returns the share of communication that a of b is.
func partOf(x graph.Within, a, b time.Duration) graph.Within {
	return graph.Within{
		Communication: time.Duration(fraction(int64(x.Communication), a, b)),
		Exposed:       time.Duration(fraction(int64(x.Exposed), a, b)), SentBytes: fraction(x.SentBytes, a, b),
	}
}

// fraction computes n·a/b, rounded down, for a up to b, none of them negative; of
// nothing, 0.
func fraction(n int64, a, b time.Duration) int64 {
	if b == 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(n), uint64(a))
	q, _ := bits.Div64(high, low, uint64(b))
	return int64(q)
}
