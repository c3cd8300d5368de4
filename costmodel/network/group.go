package network

import (
	"slices"
)

// Group is how many devices share every layer, as in Megatron: tensor
// parallelism (Shoeybi et al. 2019, section 3), with or without sequence
// parallelism (Korthikanti et al. 2022, section 4.2.2), and context parallelism (see
// context.go). All of its devices do the same at the same time. The zero value is one device.
type Group struct {
	Devices int // of tensor parallelism; 0 means 1
	// Context is how many parts every sample's sequence is cut into, each of which has
	// Devices. 0 means 1.
	Context int
	Method  string // how the parts attend to each other, "" is ContextRing
	// Sequence divides what tensor parallelism leaves whole, norms, dropout and
	// sums, along the sequence; all-reduces become a reduce-scatter and an
	// all-gather.
	Sequence bool
	// Overlap lets exchanges of the backward run beside its products (see
	// Op.Beside).
	Overlap bool
	// Scatter: without Sequence every device sends its part of what goes to
	// another rank, and the receivers gather it, in place of all sending all
	// (Narayanan et al. 2021, section 4.1).
	Scatter bool
	// Expert devices share the experts of a layer, and ExpertTensor divide each of them;
	// without Expert, 0 is as the layer is divided (see experts.go).
	Expert, ExpertTensor int
	// DeepEP sends a token once to every node that has one of its experts, and there once
	// to every device (deepseek-ai/DeepEP), in place of a row for every expert.
	DeepEP    bool
	EightBits bool // tokens are dispatched in 8 bits
}

// Parts is the number of parts in which a group sends tensors to another. With
// Sequence its tensors are parts already.
func (g Group) Parts() int {
	if g.Scatter && !g.Sequence {
		return g.TensorParts()
	}
	return 1
}

// TensorParts counts the devices of tensor parallelism, at least one.
func (g Group) TensorParts() int { return max(1, g.Devices) }

// ContextParts counts the parts of a sequence, at least one.
func (g Group) ContextParts() int { return max(1, g.Context) }

// All counts the devices of all parts.
func (g Group) All() int { return g.TensorParts() * g.ContextParts() }

// DivideLayer makes one device's part of a layer, without operations and buffers.
func (g Group) DivideLayer(l Layer, last bool) Layer {
	t := g.TensorParts()
	l.Heads /= t
	l.Params, l.Tied = g.tensors(l.Params), g.tensors(l.Tied)
	if g.Sequence && len(l.Input) > 1 {
		l.Input = l.Input.cut(0, t)
	}
	switch {
	case last:
		l.Output = l.Output.cut(len(l.Output)-1, t)
	case g.Sequence:
		l.Output = l.Output.cut(0, t)
	}
	return l
}

// cut divides one dimension by t.
func (s Dims) cut(axis, t int) Dims {
	part := slices.Clone(s)
	part[axis] /= t
	return part
}

func (g Group) tensors(whole []Tensor) []Tensor {
	parts := g.expertTensors(whole)
	for i, p := range parts {
		switch {
		case p.Sharded && p.Expert:
			parts[i].Shape = p.Shape.cut(p.Axis, g.ExpertTensorParts())
		case p.Sharded:
			parts[i].Shape = p.Shape.cut(p.Axis, g.TensorParts())
		}
	}
	return parts
}

// DivideBuffers cuts sharded ones by head or by feature. Under sequence parallelism
// the others are cut along the sequence, but for gradients kept from I to W,
// which I has gathered, token ids, and what lies between the collectives.
func (g Group) DivideBuffers(whole []Buffer, r Routing) []Buffer {
	parts := slices.Clone(whole)
	for i, b := range parts {
		switch {
		case b.Routed != NotRouted && g.Dispatches():
			parts[i] = g.routedBuffer(b, r)
		case b.Sharded && len(b.Shape) == 3:
			parts[i].Shape = b.Shape.cut(0, g.TensorParts())
		case b.Sharded:
			parts[i].Shape = b.Shape.cut(len(b.Shape)-1, g.TensorParts())
		case g.Sequence && len(b.Shape) > 1 && (b.Lifetime != InputToWeight || b.Local) && !b.Gathered:
			parts[i].Shape = b.Shape.cut(0, g.TensorParts())
		}
	}
	return parts
}

// DivideOps divides operations and puts the exchanges between them.
func (g Group) DivideOps(whole []Op, r Routing) []Op {
	var ops []Op
	inside := false
	var product Op // the last
	for i, op := range whole {
		if op.Class == Product {
			product = op
		}
		if op.Routed != NotRouted && g.Dispatches() {
			if op.Routed == ByExpert && whole[i-1].Routed == ByToken {
				ops = append(ops, Within(op.Modules, g.dispatch(op, r))...)
			}
			ops = append(ops, g.routedOp(op, r))
			if op.Routed == ByExpert && whole[i+1].Routed == ByToken {
				ops = append(ops, Within(op.Modules, g.combine(product, r))...)
			}
			continue
		}
		if op.Enters && g.TensorParts() > 1 {
			inside = true
			ops = append(ops, g.enter(op))
		}
		ops = append(ops, g.op(op, inside))
		if op.Leaves && g.TensorParts() > 1 {
			inside = false
			ops = append(ops, g.leave(op))
		}
		if op.Function == CrossEntropy && g.TensorParts() > 1 {
			ops = append(ops, g.loss(op)...)
		}
	}
	return ops
}

// op makes one device's part of an operation. What is not sharded is divided by
// sequence parallelism, outside the parts that are.
func (g Group) op(o Op, inside bool) Op {
	t := int64(g.TensorParts())
	switch {
	case o.Sharded && o.Class == Lookup:
		o.Rows /= t
	case o.Sharded && o.Class == Attention:
		o.Count, o.Elements, o.Passed = o.Count/t, o.Elements/t, o.Passed/t
		o.divideMoved(t)
	case o.Sharded && o.Class == Exchange:
		for p := range o.Exchanges {
			o.Exchanges[p].Elements /= t
		}
	case o.Sharded && o.Class == Product:
		switch {
		case o.RowParallel:
			o.Inner /= t
		case o.Weight:
			o.Cols /= t
		default:
			o.Count /= t
		}
	case g.Sequence && !inside && o.Class == Product && o.Weight:
		o.Rows /= t
	case o.Sharded || g.Sequence && !inside && o.Class != Product:
		o.Elements /= t
		if o.Unless != 0 {
			o.Count /= t
		}
		o.divideMoved(t)
	}
	return o
}

func (o *Op) divideMoved(by int64) {
	for p := range o.Moved {
		o.Moved[p], o.Writes[p], o.Mask[p] = o.Moved[p]/by, o.Writes[p]/by, o.Mask[p]/by
	}
}

// enter makes Megatron's f: nothing in F and an all-reduce of the input gradients in I, or
// with sequence parallelism an all-gather in F and a reduce-scatter in I. The
// gathered input is not kept: W, if there is one, gathers it again.
func (g Group) enter(first Op) Op {
	n := first.Elements
	if first.Class == Product {
		n = first.Rows * first.Inner
	}
	op := Op{Name: first.Name + ".enter", Class: Exchange, Beside: g.Overlap, Modules: first.Modules}
	if !g.Sequence {
		op.Exchanges[InputGradient] = Transfer{Collective: AllReduce, Elements: n}
		return op
	}
	op.Exchanges[Forward] = Transfer{Collective: AllGather, Elements: n}
	op.Exchanges[InputGradient] = Transfer{Collective: ReduceScatter, Elements: n}
	if first.Weight {
		op.Exchanges[WeightGradient] = Transfer{Collective: AllGather, Elements: n}
	}
	return op
}

// leave makes Megatron's g: an all-reduce of the results in F, or with sequence parallelism
// a reduce-scatter, and an all-gather of their gradients in I.
func (g Group) leave(last Op) Op {
	n := last.Elements
	if last.Class == Product {
		n = last.Rows * last.Cols
	}
	op := Op{Name: last.Name + ".leave", Class: Exchange, Modules: last.Modules}
	if !g.Sequence {
		op.Exchanges[Forward] = Transfer{Collective: AllReduce, Elements: n}
		return op
	}
	op.Exchanges[Forward] = Transfer{Collective: ReduceScatter, Elements: n}
	op.Exchanges[InputGradient] = Transfer{Collective: AllGather, Elements: n}
	return op
}

// loss returns what a cross-entropy over a divided vocabulary exchanges in F: for
// every token the largest logit, the target's, and the sum, in fp32.
func (g Group) loss(o Op) []Op {
	var ops []Op
	for _, name := range []string{"max", "target", "sum"} {
		op := Op{Name: o.Name + "." + name, Class: Exchange}
		op.Exchanges[Forward] = Transfer{Collective: AllReduce, Elements: o.Rows, ElementBytes: 4}
		ops = append(ops, op)
	}
	return ops
}
