package network

import (
	"math"
	"slices"

	"psim/costmodel/group"
)

// Experts may be on other devices than the rest of their layer (Lepikhin et al. 2021;
// megatron/core/transformer/moe/token_dispatcher.py). A device then routes the tokens that
// it has. Two all-to-alls over the expert group bring them to their experts and
// back, dispatch and combine, and the same ones bring gradients. Where experts
// are divided by themselves, what came is gathered over those who divide them.

// Routed says whose rows an operation or a buffer of a mixture of experts has.
type Routed uint8

const (
	NotRouted Routed = iota // no mixture's
	ByToken                 // of a device's tokens: the router, what sorts them, their weighted sums
	ByExpert                // of those that came to a device's experts
)

// load returns how much more than the mean the busiest device has to do.
func (d division) load() float64 {
	return min(max(1, d.routing.Imbalance), float64(d.ExpertParts()))
}

// rows counts those of a device's experts, of so many in a whole sequence.
func (d division) rows(whole int64) int64 {
	return int64(math.Ceil(float64(whole) * float64(d.ExpertTensorParts()) / float64(d.TensorParts()) * d.load()))
}

// expertTensors takes the first of equal shares of a layer's experts.
func (d division) expertTensors(whole []Tensor) []Tensor {
	var experts int
	for _, t := range whole {
		if t.Expert {
			experts++
		}
	}
	left := experts / d.ExpertParts()
	return slices.DeleteFunc(slices.Clone(whole), func(t Tensor) bool {
		if t.Expert {
			left--
		}
		return t.Expert && left < 0
	})
}

// routedBuffer makes a device's part of what a mixture keeps.
func (d division) routedBuffer(b Buffer) Buffer {
	b.Shape = slices.Clone(b.Shape)
	if b.Routed == ByToken {
		b.Shape[0] /= d.TensorParts()
		return b
	}
	b.Shape[0] = int(d.rows(int64(b.Shape[0])))
	if b.Sharded {
		b.Shape[len(b.Shape)-1] /= d.ExpertTensorParts()
	}
	return b
}

// routedOp makes a device's part of an operation of a mixture.
func (d division) routedOp(o Op) Op {
	o.Enters, o.Leaves = false, false
	of, by := int64(d.TensorParts()), int64(1)
	if o.Routed == ByExpert {
		by = int64(d.ExpertTensorParts())
		o.Experts /= int64(d.ExpertParts())
	}
	switch {
	case o.Class != Product && o.Routed == ByToken:
		o.Elements /= of
		o.divideMoved(of)
	case o.Class != Product:
		o.Elements = d.rows(o.Elements) / by
		for p := range o.Moved {
			o.Moved[p], o.Writes[p] = d.rows(o.Moved[p])/by, d.rows(o.Writes[p])/by
		}
	case o.Routed == ByToken:
		o.Rows /= of
	default:
		o.Rows = d.rows(o.Rows)
		if o.RowParallel {
			o.Inner /= by
		} else {
			o.Cols /= by
		}
	}
	return o
}

// dispatch brings rows × hidden elements of a sequence from tokens to experts.
func (d division) dispatch(first Op) []Op {
	rows, hidden := first.Rows, first.Inner
	sent, received := d.rows(rows)/int64(d.ExpertTensorParts())*hidden, d.rows(rows)*hidden
	var ops []Op
	exchange := Op{Name: "mlp.dispatch", Class: Exchange, Routed: ByToken}
	exchange.Exchanges[Forward] = group.Transfer{Collective: group.AllToAll, Elements: sent}
	exchange.Exchanges[InputGradient] = group.Transfer{Collective: group.AllToAll, Elements: sent}
	if d.EightBits && d.ExpertParts() > 1 {
		tokens := rows / int64(max(1, d.routing.PerToken)) / int64(d.TensorParts()) * hidden
		cast := NewElementwise("mlp.dispatch.cast", tokens, Traffic{}, Traffic{})
		cast.Moved[Forward], cast.Writes[Forward] = tokens*3/2, tokens/2 // of 16 bits: reads them, writes half of them
		ops = append(ops, cast)
		exchange.Exchanges[Forward] = group.Transfer{Collective: group.AllToAll, Elements: sent + sent/scaled*4, ElementBytes: 1}
	}
	if d.ExpertParts() > 1 {
		ops = append(ops, exchange)
	}
	ops = append(ops, d.gathered("mlp.dispatch", Forward, received)...)
	return append(ops, d.sorted("mlp.sort_received", received)...)
}

// scaled counts the elements that have an fp32 scale in common when they are sent in
// 8 bits (DeepSeek-AI 2024, section 3.3.2).
const scaled = 128

// combine brings the results of experts back to their tokens.
func (d division) combine(last Op) []Op {
	rows, hidden := last.Rows, last.Cols
	sent, received := d.rows(rows)/int64(d.ExpertTensorParts())*hidden, d.rows(rows)*hidden
	ops := append(d.sorted("mlp.sort_back", received), d.gathered("mlp.combine", InputGradient, received)...)
	if d.ExpertParts() > 1 {
		exchange := Op{Name: "mlp.combine", Class: Exchange, Routed: ByToken}
		exchange.Exchanges[Forward] = group.Transfer{Collective: group.AllToAll, Elements: sent}
		exchange.Exchanges[InputGradient] = group.Transfer{Collective: group.AllToAll, Elements: sent}
		ops = append(ops, exchange)
	}
	return ops
}

// gathered makes the collectives among those who divide an expert: a gather in one
// pass, and a scattered sum in the other.
func (d division) gathered(name string, in Pass, elements int64) []Op {
	x := d.ExpertTensorParts()
	if x == 1 {
		return nil
	}
	op := Op{Name: name + ".tensor", Class: Exchange, Routed: ByExpert}
	for _, p := range []Pass{Forward, InputGradient} {
		op.Exchanges[p] = group.Transfer{Collective: group.ReduceScatter, Elements: elements, Devices: x}
		if p == in {
			op.Exchanges[p].Collective = group.AllGather
		}
	}
	return []Op{op}
}

// sorted makes the sorting of what came from several devices by experts, where a device
// has several and rows do not come in their order.
func (d division) sorted(name string, elements int64) []Op {
	if d.routing.Experts == d.ExpertParts() || d.ExpertParts() == 1 || d.DeepEP {
		return nil
	}
	op := NewElementwise(name, elements, Traffic{Read: 2, Written: 2}, Traffic{Read: 2, Written: 2})
	op.Routed = ByExpert
	return []Op{op}
}

// SentToExperts is what a device sends to others, of rows of so many bytes that go to
// experts: all but the part that its own have. A dispatcher that sends a token once to
// every device sends fewer.
func (n Network) SentToExperts(bytes int64) int64 {
	e := int64(n.Group.ExpertParts())
	if !n.Group.DeepEP {
		return bytes/e*(e-1) + bytes%e*(e-1)/e
	}
	return int64(float64(bytes) * n.Routing.Reached(int(e)) / float64(n.Routing.PerToken) * float64(e-1) / float64(e))
}

// Surplus is the FLOPs of a pass of operations that the busiest device of an expert group
// has beyond the mean, per sample.
func (n Network) Surplus(ops []Op, p Pass) float64 {
	load := division{n.Group, n.Routing}.load()
	if load == 1 || !n.Group.Dispatches() {
		return 0
	}
	return (1 - 1/load) * float64(sum(ops, func(o Op) int64 {
		if o.Routed != ByExpert {
			return 0
		}
		return o.FLOPs(p)
	}))
}
