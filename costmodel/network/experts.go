package network

import (
	"math"
	"slices"
)

// Experts may be on other devices than the rest of their layer (Lepikhin et al. 2021;
// megatron/core/transformer/moe/token_dispatcher.py). A device then routes the tokens that
// it has. Two all-to-alls over the expert group bring them to their experts and
// back, dispatch and combine, and the same ones bring gradients. Where experts
// are divided by themselves, what came is gathered over those who divide them.

// Routing is how the layers of a network choose experts; the zero value is a network
// without them.
type Routing struct {
	Experts, PerToken int
	// Groups and GroupsPerToken limit a token to the experts of some groups, which are of
	// equal size (DeepSeek-AI 2024, section 2.1.2); 1 where there is no limit.
	Groups, GroupsPerToken int
	// Imbalance is what the busiest device of an expert group has to do over the mean.
	Imbalance float64
	Capacity  float64 // of every expert in rows, over the mean; 0 is none
}

// Routed says whose rows an operation or a buffer of a mixture of experts has.
type Routed uint8

const (
	NotRouted Routed = iota // no mixture's
	ByToken                 // of a device's tokens: the router, what sorts them, their weighted sums
	ByExpert                // of those that came to a device's experts
)

// ExpertParts counts the devices that share the experts of a layer.
func (g Group) ExpertParts() int { return max(1, g.Expert) }

// ExpertTensorParts counts the devices among which every expert is divided.
func (g Group) ExpertTensorParts() int {
	switch {
	case g.ExpertTensor > 0:
		return g.ExpertTensor
	case g.Expert > 1:
		return 1
	}
	return g.TensorParts()
}

// Dispatches reports whether experts are divided otherwise than the layers around them.
func (g Group) Dispatches() bool {
	return g.ExpertParts() > 1 || g.ExpertTensorParts() != g.TensorParts()
}

// ExpertDevices is the number of devices that share the experts of a layer.
func (g Group) ExpertDevices() int { return g.ExpertParts() * g.ExpertTensorParts() }

// load returns how much more than the mean the busiest device has to do.
func (g Group) load(r Routing) float64 {
	return min(max(1, r.Imbalance), float64(g.ExpertParts()))
}

// rows counts those of a device's experts, of so many in a whole sequence.
func (g Group) rows(whole int64, r Routing) int64 {
	return int64(math.Ceil(float64(whole) * float64(g.ExpertTensorParts()) / float64(g.TensorParts()) * g.load(r)))
}

// expertTensors takes the first of equal shares of a layer's experts.
func (g Group) expertTensors(whole []Tensor) []Tensor {
	var experts int
	for _, t := range whole {
		if t.Expert {
			experts++
		}
	}
	left := experts / g.ExpertParts()
	return slices.DeleteFunc(slices.Clone(whole), func(t Tensor) bool {
		if t.Expert {
			left--
		}
		return t.Expert && left < 0
	})
}

// routedBuffer makes a device's part of what a mixture keeps.
func (g Group) routedBuffer(b Buffer, r Routing) Buffer {
	b.Shape = slices.Clone(b.Shape)
	if b.Routed == ByToken {
		b.Shape[0] /= g.TensorParts()
		return b
	}
	b.Shape[0] = int(g.rows(int64(b.Shape[0]), r))
	if b.Sharded {
		b.Shape[len(b.Shape)-1] /= g.ExpertTensorParts()
	}
	return b
}

// routedOp makes a device's part of an operation of a mixture.
func (g Group) routedOp(o Op, r Routing) Op {
	o.Enters, o.Leaves = false, false
	of, by := int64(g.TensorParts()), int64(1)
	if o.Routed == ByExpert {
		by = int64(g.ExpertTensorParts())
		o.Experts /= int64(g.ExpertParts())
	}
	switch {
	case o.Class != Product && o.Routed == ByToken:
		o.Elements /= of
		o.divideMoved(of)
	case o.Class != Product:
		o.Elements = g.rows(o.Elements, r) / by
		for p := range o.Moved {
			o.Moved[p], o.Writes[p] = g.rows(o.Moved[p], r)/by, g.rows(o.Writes[p], r)/by
		}
	case o.Routed == ByToken:
		o.Rows /= of
	default:
		o.Rows = g.rows(o.Rows, r)
		if o.RowParallel {
			o.Inner /= by
		} else {
			o.Cols /= by
		}
	}
	return o
}

// dispatch brings rows × hidden elements of a sequence from tokens to experts.
func (g Group) dispatch(first Op, r Routing) []Op {
	rows, hidden := first.Rows, first.Inner
	sent, received := g.rows(rows, r)/int64(g.ExpertTensorParts())*hidden, g.rows(rows, r)*hidden
	var ops []Op
	exchange := Op{Name: "mlp.dispatch", Class: Exchange, Routed: ByToken}
	exchange.Exchanges[Forward] = Transfer{Collective: AllToAll, Elements: sent}
	exchange.Exchanges[InputGradient] = Transfer{Collective: AllToAll, Elements: sent}
	if g.EightBits && g.ExpertParts() > 1 {
		tokens := rows / int64(max(1, r.PerToken)) / int64(g.TensorParts()) * hidden
		cast := NewElementwise("mlp.dispatch.cast", tokens, Traffic{}, Traffic{})
		cast.Moved[Forward], cast.Writes[Forward] = tokens*3/2, tokens/2 // of 16 bits: reads them, writes half of them
		ops = append(ops, cast)
		exchange.Exchanges[Forward] = Transfer{Collective: AllToAll, Elements: sent + sent/scaled*4, ElementBytes: 1}
	}
	if g.ExpertParts() > 1 {
		ops = append(ops, exchange)
	}
	ops = append(ops, g.gathered("mlp.dispatch", Forward, received)...)
	return append(ops, g.sorted("mlp.sort_received", received, r)...)
}

// scaled counts the elements that have an fp32 scale in common when they are sent in
// 8 bits (DeepSeek-AI 2024, section 3.3.2).
const scaled = 128

// combine brings the results of experts back to their tokens.
func (g Group) combine(last Op, r Routing) []Op {
	rows, hidden := last.Rows, last.Cols
	sent, received := g.rows(rows, r)/int64(g.ExpertTensorParts())*hidden, g.rows(rows, r)*hidden
	ops := append(g.sorted("mlp.sort_back", received, r), g.gathered("mlp.combine", InputGradient, received)...)
	if g.ExpertParts() > 1 {
		exchange := Op{Name: "mlp.combine", Class: Exchange, Routed: ByToken}
		exchange.Exchanges[Forward] = Transfer{Collective: AllToAll, Elements: sent}
		exchange.Exchanges[InputGradient] = Transfer{Collective: AllToAll, Elements: sent}
		ops = append(ops, exchange)
	}
	return ops
}

// gathered makes the collectives among those who divide an expert: a gather in one
// pass, and a scattered sum in the other.
func (g Group) gathered(name string, in Pass, elements int64) []Op {
	x := g.ExpertTensorParts()
	if x == 1 {
		return nil
	}
	op := Op{Name: name + ".tensor", Class: Exchange, Routed: ByExpert}
	for _, p := range []Pass{Forward, InputGradient} {
		op.Exchanges[p] = Transfer{Collective: ReduceScatter, Elements: elements, Devices: x}
		if p == in {
			op.Exchanges[p].Collective = AllGather
		}
	}
	return []Op{op}
}

// sorted makes the sorting of what came from several devices by experts, where a device
// has several and rows do not come in their order.
func (g Group) sorted(name string, elements int64, r Routing) []Op {
	if r.Experts == g.ExpertParts() || g.ExpertParts() == 1 || g.DeepEP {
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

// Reached is how many of so many equal parts of the experts, devices or nodes, a
// token goes to on average, where all choices are equally likely.
func (r Routing) Reached(parts int) float64 {
	groups := max(1, r.Groups/parts) // of a part, which is in one, or is several
	each := float64(r.Experts) / float64(parts) / float64(groups)
	choice := float64(r.Experts) * float64(r.GroupsPerToken) / float64(r.Groups)
	missed := 0.0
	for chosen := range min(groups, r.GroupsPerToken) + 1 {
		likely := binomial(groups, chosen) * binomial(r.Groups-groups, r.GroupsPerToken-chosen) / binomial(r.Groups, r.GroupsPerToken)
		for i := range r.PerToken {
			likely *= max(0, choice-each*float64(chosen)-float64(i)) / (choice - float64(i))
		}
		missed += likely
	}
	return float64(parts) * (1 - missed)
}

// binomial returns how many choices of k among n there are.
func binomial(n, k int) float64 {
	if k > n {
		return 0
	}
	choices := 1.0
	for i := range k {
		choices *= float64(n-i) / float64(i+1)
	}
	return choices
}
