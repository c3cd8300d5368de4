package network

import (
	"math"
	"slices"

	"psim/costmodel/group"
)

// The experts of a mixture may be on other devices than the rest of their layer (Lepikhin et
// al. 2021; megatron/core/transformer/moe/token_dispatcher.py). Each device routes the tokens
// that it has. Two all-to-alls over the expert group, dispatch and combine, bring them to
// their experts and back; in the backward the same two bring the gradients. Devices that
// divide an expert gather the rows that they have received.

// Routed says which rows an operation or a buffer of a mixture of experts works on.
type Routed uint8

const (
	NotRouted Routed = iota // not part of a mixture
	ByToken                 // the tokens of a device: router, sorting, weighted sums
	ByExpert                // the rows that came to the experts of a device
)

// load returns the work of the busiest device of the expert group over the mean.
func (d division) load() float64 {
	return min(max(1, d.routing.Imbalance), float64(d.ExpertParts()))
}

// rows returns the number of rows for the experts of the busiest device, given the number of
// rows of a whole sequence.
func (d division) rows(whole int64) int64 {
	mean := float64(whole) * float64(d.ExpertTensorParts()) / float64(d.TensorParts())
	return int64(math.Ceil(mean * d.load()))
}

// expertTensors keeps the first of the equal shares of a layer's experts, and all other
// tensors.
func (d division) expertTensors(whole []Tensor) []Tensor {
	var experts int
	for i := range whole {
		if whole[i].Expert {
			experts++
		}
	}
	left := experts / d.ExpertParts()
	// Exactly as many as are kept: a device may have a few of hundreds of experts.
	kept := make([]Tensor, 0, len(whole)-experts+left)
	for i := range whole {
		if t := &whole[i]; t.Expert {
			if left--; left < 0 {
				continue
			}
		}
		kept = append(kept, whole[i])
	}
	return kept
}

// routedBuffer returns one device's part of a buffer of a mixture.
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

// routedOp returns one device's part of an operation of a mixture.
func (d division) routedOp(o Op) Op {
	o.Enters, o.Leaves = false, false
	tensor, expert := int64(d.TensorParts()), int64(1)
	if o.Routed == ByExpert {
		expert = int64(d.ExpertTensorParts())
		o.Experts /= int64(d.ExpertParts())
	}
	switch {
	case o.Class != Product && o.Routed == ByToken:
		o.Elements /= tensor
		o.divideMoved(tensor)
	case o.Class != Product:
		o.Elements = d.rows(o.Elements) / expert
		for p := range o.Moved {
			o.Moved[p], o.Writes[p] = d.rows(o.Moved[p])/expert, d.rows(o.Writes[p])/expert
		}
	case o.Routed == ByToken:
		o.Rows /= tensor
	default:
		o.Rows = d.rows(o.Rows)
		if o.RowParallel {
			o.Inner /= expert
		} else {
			o.Cols /= expert
		}
	}
	return o
}

// dispatch returns the operations that bring the rows of a sequence to the experts, given the
// experts' first product.
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
		// A cast reads 16 bits and writes 8.
		cast.Moved[Forward], cast.Writes[Forward] = tokens*3/2, tokens/2
		ops = append(ops, cast)
		const scale = 4 // bytes
		exchange.Exchanges[Forward] = group.Transfer{
			Collective: group.AllToAll, Elements: sent + sent/perScale*scale, ElementBytes: 1,
		}
	}
	if d.ExpertParts() > 1 {
		ops = append(ops, exchange)
	}
	ops = append(ops, d.tensorCollectives("mlp.dispatch", Forward, received)...)
	return append(ops, d.sorting("mlp.sort_received", received)...)
}

// perScale is the number of elements that share an fp32 scale when they are sent in 8 bits
// (DeepSeek-AI 2024, section 3.3.2).
const perScale = 128

// combine returns the operations that bring the results of experts back to their tokens, given
// the experts' last product.
func (d division) combine(last Op) []Op {
	rows, hidden := last.Rows, last.Cols
	sent, received := d.rows(rows)/int64(d.ExpertTensorParts())*hidden, d.rows(rows)*hidden
	ops := d.sorting("mlp.sort_back", received)
	ops = append(ops, d.tensorCollectives("mlp.combine", InputGradient, received)...)
	if d.ExpertParts() > 1 {
		exchange := Op{Name: "mlp.combine", Class: Exchange, Routed: ByToken}
		exchange.Exchanges[Forward] = group.Transfer{Collective: group.AllToAll, Elements: sent}
		exchange.Exchanges[InputGradient] = group.Transfer{Collective: group.AllToAll, Elements: sent}
		ops = append(ops, exchange)
	}
	return ops
}

// tensorCollectives returns the collectives among the devices that divide an expert: an
// all-gather in one of F and I, and a reduce-scatter in the other.
func (d division) tensorCollectives(name string, gathers Pass, elements int64) []Op {
	x := d.ExpertTensorParts()
	if x == 1 {
		return nil
	}
	op := Op{Name: name + ".tensor", Class: Exchange, Routed: ByExpert}
	for _, p := range []Pass{Forward, InputGradient} {
		op.Exchanges[p] = group.Transfer{Collective: group.ReduceScatter, Elements: elements, Devices: x}
		if p == gathers {
			op.Exchanges[p].Collective = group.AllGather
		}
	}
	return []Op{op}
}

// sorting returns the operation that sorts rows from several devices by expert. A device with
// a single expert needs none, and DeepEP delivers rows in their order.
func (d division) sorting(name string, elements int64) []Op {
	if d.routing.Experts == d.ExpertParts() || d.ExpertParts() == 1 || d.DeepEP {
		return nil
	}
	op := NewElementwise(name, elements, Traffic{Read: 2, Written: 2}, Traffic{Read: 2, Written: 2})
	op.Routed = ByExpert
	return []Op{op}
}

// SentToExperts returns the bytes that a device sends to other devices, given the bytes of the
// rows for all experts: all but the share of its own experts. DeepEP sends fewer, because it
// sends a token only once to each device.
func (n Network) SentToExperts(bytes int64) int64 {
	e := int64(n.Group.ExpertParts())
	if !n.Group.DeepEP {
		return bytes/e*(e-1) + bytes%e*(e-1)/e
	}
	copies := float64(bytes) * n.Routing.Reached(int(e)) / float64(n.Routing.PerToken)
	return int64(copies * float64(e-1) / float64(e))
}

// Surplus returns the FLOPs per sample that a pass of operations takes on the busiest device
// of an expert group beyond the mean.
func (n Network) Surplus(ops []Op, p Pass) float64 {
	load := division{n.Group, n.Routing}.load()
	if load == 1 || !n.Group.Dispatches() {
		return 0
	}
	return (1 - 1/load) * sum(ops, func(o Op) float64 {
		if o.Routed != ByExpert {
			return 0
		}
		return o.FLOPs(p)
	})
}
