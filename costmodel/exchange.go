package costmodel

import (
	"math/bits"
	"time"

	"psim/costmodel/arch"
	"psim/schedules"
)

// What the devices of a tensor-parallel group exchange is part of the tasks of
// their rank: every device waits for it, as the next operation does.

// collectiveKinds are the tasks that cost what a collective within a rank does.
var collectiveKinds = map[arch.Collective]schedules.Kind{
	arch.AllReduce: schedules.AllReduce, arch.AllGather: schedules.AllGather, arch.ReduceScatter: schedules.ReduceScatter,
}

// exchange is the time of one pass of an exchange over a microbatch.
func (c Compute) exchange(o arch.Op, p arch.Pass, samples int64) time.Duration {
	t := o.Exchanges[p]
	if t.Collective == arch.NoCollective {
		return 0
	}
	return CollectiveTime(collectiveKinds[t.Collective], c.link, c.devices, t.Bytes(int64(c.element), samples))
}

// sent is what every device sends in one pass of operations: as a ring does.
func (c Compute) sent(ops []arch.Op, p arch.Pass, samples int64) int64 {
	var sum int64
	for _, o := range ops {
		t := o.Exchanges[p]
		n := int64(c.devices)
		if t.Collective == arch.NoCollective || n < 2 {
			continue
		}
		bytes := t.Bytes(int64(c.element), samples)
		if t.Collective == arch.AllReduce {
			bytes *= 2
		}
		sum += bytes/n*(n-1) + bytes%n*(n-1)/n
	}
	return sum
}

// communication is the time that one pass of operations spends in exchanges,
// one after another.
func (c Compute) communication(ops []arch.Op, p arch.Pass, samples int64) time.Duration {
	var sum time.Duration
	for _, o := range ops {
		if o.Class == arch.Exchange {
			sum = total(sum, c.exchange(o, p, samples))
		}
	}
	return sum
}

// hidden is how much of a layer's exchanges runs beside products in a whole
// backward: that of I beside W of the products that follow in forward order, and
// that of W beside their I.
func (c Compute) hidden(ops []arch.Op, samples int64) time.Duration {
	var sum time.Duration
	for i, o := range ops {
		if o.Class != arch.Exchange || !o.Beside {
			continue
		}
		var input, weight time.Duration
		for _, next := range ops[i+1:] {
			if next.Class != arch.Product || !next.Weight {
				break
			}
			input = total(input, c.Op(next, arch.InputGradient, samples))
			weight = total(weight, c.Op(next, arch.WeightGradient, samples))
		}
		sum = total(sum, min(weight, c.exchange(o, arch.InputGradient, samples)), min(input, c.exchange(o, arch.WeightGradient, samples)))
	}
	return sum
}

// passes is the communication within every pass of a stage over a microbatch.
type passes struct {
	forward, repeated, input, weight schedules.Inner
	whole                            schedules.Inner // input and weight in one piece
}

// add adds a layer's.
func (p *passes) add(c Compute, l arch.Layer, t arch.Training, samples int64) {
	in := func(ops []arch.Op, pass arch.Pass) schedules.Inner {
		time := c.communication(ops, pass, samples)
		return schedules.Inner{Communication: time, Exposed: time, SentBytes: c.sent(ops, pass, samples)}
	}
	input, weight := in(l.Ops, arch.InputGradient), in(l.Ops, arch.WeightGradient)
	whole := input.Plus(weight)
	whole.Exposed -= c.hidden(l.Ops, samples)
	p.forward = p.forward.Plus(in(l.Ops, arch.Forward))
	p.repeated = p.repeated.Plus(in(t.Repeated(l), arch.Forward))
	p.input, p.weight, p.whole = p.input.Plus(input), p.weight.Plus(weight), p.whole.Plus(whole)
}

// received is the gathering of a tensor that came to a stage in parts from its
// neighbour across a boundary: the activations before its forward where the
// neighbour is the stage before, the gradients before its backward where it is
// the one after.
func (w Workload) received(c Compute, stage, neighbour int, samples int64) schedules.Inner {
	boundary := min(stage, neighbour)
	parts := w.Network.Group.Parts()
	if parts == 1 || boundary < 0 || boundary+1 == len(w.Layers) || w.StageRank[stage] == w.StageRank[neighbour] {
		return schedules.Inner{}
	}
	layers := w.Stage(boundary)
	bytes := layers[len(layers)-1].Output.Elements() * w.Training.ActivationElement() * samples
	t := CollectiveTime(schedules.AllGather, c.link, parts, bytes)
	return schedules.Inner{Communication: t, Exposed: t, SentBytes: bytes / int64(parts) * int64(parts-1)}
}

// gather adds the gathering of what a stage receives.
func (p *price) gather(activations, gradients schedules.Inner) {
	p.forward = total(p.forward, activations.Exposed)
	p.input, p.whole = total(p.input, gradients.Exposed), total(p.whole, gradients.Exposed)
	p.inner.forward = p.inner.forward.Plus(activations)
	p.inner.input, p.inner.whole = p.inner.input.Plus(gradients), p.inner.whole.Plus(gradients)
}

// share is a piece of a time: from one point in it to another.
type share struct{ from, to, whole time.Duration }

// sharesOf cuts the whole of some times into shares.
func sharesOf(times []time.Duration) []share {
	shares := make([]share, len(times))
	var whole time.Duration
	for i, t := range times {
		shares[i].from = whole
		whole += t
		shares[i].to = whole
	}
	for i := range shares {
		shares[i].whole = whole
	}
	return shares
}

// of gives a share of communication. Those of all shares add up to the whole.
func (s share) of(i schedules.Inner) schedules.Inner {
	if i == (schedules.Inner{}) || s.whole == 0 {
		return i
	}
	part := func(n int64) int64 { return fraction(n, s.to, s.whole) - fraction(n, s.from, s.whole) }
	return schedules.Inner{
		Communication: time.Duration(part(int64(i.Communication))),
		Exposed:       time.Duration(part(int64(i.Exposed))),
		SentBytes:     part(i.SentBytes),
	}
}

// fraction is n·a/b, rounded down, for a up to b; n and a are not negative.
func fraction(n int64, a, b time.Duration) int64 {
	high, low := bits.Mul64(uint64(n), uint64(a))
	q, _ := bits.Div64(high, low, uint64(b))
	return int64(q)
}
