package costmodel

import (
	"math/bits"
	"time"

	"psim/costmodel/group"
	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

// The exchanges among the devices of a tensor-parallel group are part of the tasks of their
// rank: every device waits for them, since the next operation needs the result.

// collectiveKinds maps collectives within a rank to the tasks with the same cost.
var collectiveKinds = map[group.Pattern]graph.Kind{
	group.AllReduce: graph.AllReduce, group.AllGather: graph.AllGather, group.ReduceScatter: graph.ReduceScatter,
}

// exchange returns the time of one pass of an exchange over a microbatch.
func (c *Compute) exchange(o network.Op, p network.Pass, samples int64) time.Duration {
	t := o.Exchanges[p]
	if t.Collective == group.NoCollective || t.Collective == group.AllToAll { // an all-to-all is a task by itself
		return 0
	}
	if t.Collective == group.Transpose {
		return c.contexts.transpose(t.Bytes(int64(c.element), samples))
	}
	l, n := c.among(t)
	return l.CollectiveTime(collectiveKinds[t.Collective], n, t.Bytes(int64(c.element), samples))
}

// among finds the link that a transfer takes and the number of devices in it.
func (c *Compute) among(t group.Transfer) (link.Link, int) {
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

// sent counts the bytes that every device sends in one pass of an exchange, as a ring does.
func (c *Compute) sent(o network.Op, p network.Pass, samples int64) int64 {
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

// communication adds up the exchanges of one pass of operations, one after another.
func (c *Compute) communication(ops []network.Op, p network.Pass, samples int64) (sum graph.Inner) {
	for _, o := range ops {
		sum = sum.Plus(c.within(o, p, samples))
	}
	return sum
}

// within returns the communication of one pass of an operation.
func (c *Compute) within(o network.Op, p network.Pass, samples int64) graph.Inner {
	switch {
	case o.Class != network.Exchange && (o.Passed == 0 || o.Idle(p)):
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

// hidden returns the part of the time of a layer's exchanges for which its whole backward does
// not wait. An exchange may overlap with the products that follow it in forward order: an
// exchange of I with their weight gradients, and an exchange of W with their input gradients.
// It is hidden for as long as they take.
func (c *Compute) hidden(ops []network.Op, samples int64) time.Duration {
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
		sum = units.Sum(sum,
			min(weight, c.exchange(o, network.InputGradient, samples)),
			min(input, c.exchange(o, network.WeightGradient, samples)))
	}
	return sum
}

// hides reports whether an exchange may overlap with an operation: it may with a product that
// has parameters, whose I and W do not need each other.
func hides(o network.Op) bool { return o.Class == network.Product && o.Weight }

// nilIfZero returns the communication, or nil if there is none.
func nilIfZero(i *graph.Inner) *graph.Inner {
	if *i == (graph.Inner{}) {
		return nil
	}
	return i
}

// exchange adds the communication of a layer.
func (p *price) exchange(c *Compute, l network.Layer, t training.Options, samples int64) {
	in := func(ops []network.Op, pass network.Pass) graph.Inner { return c.communication(ops, pass, samples) }
	input, weight := in(l.Ops, network.InputGradient), in(l.Ops, network.WeightGradient)
	whole := input.Plus(weight)
	whole.Exposed -= c.hidden(l.Ops, samples)
	repeated := in(t.Repeated(l), network.Forward)
	p.inner.forward = p.inner.forward.Plus(in(l.Ops, network.Forward))
	p.inner.weight = p.inner.weight.Plus(weight)
	p.inner.input = p.inner.input.Plus(repeated).Plus(input)
	p.inner.backward = p.inner.backward.Plus(repeated).Plus(whole)
}

// received prices the gathering of a tensor that a stage received in parts from a neighbour:
// of the activations before its forward if the neighbour is the stage before, of the gradients
// before its backward if it is the stage after.
func (p *pricer) received(stage, neighbour int, samples int64) graph.Inner {
	staged, boundary := p.staged, min(stage, neighbour)
	parts := staged.Network.Group.Parts()
	outside := boundary < 0 || boundary+1 == len(staged.Stages)
	if parts == 1 || outside || staged.Placement.Together(stage, neighbour) {
		return graph.Inner{}
	}
	bytes := staged.Activations(boundary, samples)
	t := p.compute.link.CollectiveTime(graph.AllGather, parts, bytes)
	sent := bytes / int64(parts) * int64(parts-1)
	return graph.Inner{Within: graph.Within{Communication: t, Exposed: t, SentBytes: sent}}
}

// gather adds the gathering of the tensors that a stage receives.
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

// spread divides communication among the slices of a task in proportion to their times.
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

// partOf returns the share a/b of communication.
func partOf(x graph.Within, a, b time.Duration) graph.Within {
	return graph.Within{
		Communication: time.Duration(fraction(int64(x.Communication), a, b)),
		Exposed:       time.Duration(fraction(int64(x.Exposed), a, b)), SentBytes: fraction(x.SentBytes, a, b),
	}
}

// fraction computes n·a/b, rounded down, for 0 ≤ a ≤ b and n ≥ 0. It returns 0 if b is 0.
func fraction(n int64, a, b time.Duration) int64 {
	if b == 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(n), uint64(a))
	q, _ := bits.Div64(high, low, uint64(b))
	return int64(q)
}
