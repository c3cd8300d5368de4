package network

import (
	"slices"

	"psim/costmodel/group"
)

// A division gives one device of a group its part of a network.
type division struct {
	group.Group
	routing group.Routing
}

// Divided returns the part of the network that one device of a group has, with the exchanges
// among the devices. The group must divide all sizes (models.Model.On checks that).
func (n Network) Divided(g group.Group) Network {
	d := division{g, n.Routing}
	n.Group = g
	n.Layers = slices.Clone(n.Layers)
	first := Same(n.Layers)
	for i, l := range n.Layers {
		part := &n.Layers[i]
		*part = d.layer(l, i == len(n.Layers)-1)
		if k := first[i]; k < i {
			part.Ops, part.Buffers = n.Layers[k].Ops, n.Layers[k].Buffers
		} else {
			part.Ops, part.Buffers = d.ops(l.Ops), d.buffers(l.Buffers)
		}
	}
	return n
}

// layer returns one device's part of a layer, apart from its operations and buffers.
func (d division) layer(l Layer, last bool) Layer {
	t := d.TensorParts()
	l.Heads /= t
	l.Params, l.Tied = d.tensors(l.Params), d.tensors(l.Tied)
	if d.Sequence && len(l.Input) > 1 {
		l.Input = l.Input.cut(0, t)
	}
	switch {
	case last:
		l.Output = l.Output.cut(len(l.Output)-1, t)
	case d.Sequence:
		l.Output = l.Output.cut(0, t)
	}
	return l
}

// cut returns the shape with one dimension divided by t.
func (s Dims) cut(axis, t int) Dims {
	part := slices.Clone(s)
	part[axis] /= t
	return part
}

// tensors returns one device's part of parameter tensors.
func (d division) tensors(whole []Tensor) []Tensor {
	parts := d.expertTensors(whole)
	for i, p := range parts {
		switch {
		case p.Sharded && p.Expert:
			parts[i].Shape = p.Shape.cut(p.Axis, d.ExpertTensorParts())
		case p.Sharded:
			parts[i].Shape = p.Shape.cut(p.Axis, d.TensorParts())
		}
	}
	return parts
}

// buffers returns one device's part of buffers. Sharded buffers are cut by head or by
// feature. Sequence parallelism cuts the others along the sequence, except gradients that
// are kept from I to W (I has gathered these), token ids, and Gathered buffers.
func (d division) buffers(whole []Buffer) []Buffer {
	parts := slices.Clone(whole)
	for i, b := range parts {
		switch {
		case b.Routed != NotRouted && d.Dispatches():
			parts[i] = d.routedBuffer(b)
		case b.Sharded && len(b.Shape) == 3:
			parts[i].Shape = b.Shape.cut(0, d.TensorParts())
		case b.Sharded:
			parts[i].Shape = b.Shape.cut(len(b.Shape)-1, d.TensorParts())
		case d.Sequence && len(b.Shape) > 1 && (b.Lifetime != InputToWeight || b.Local) && !b.Gathered:
			parts[i].Shape = b.Shape.cut(0, d.TensorParts())
		}
	}
	return parts
}

// ops returns one device's part of operations, with the exchanges between them.
func (d division) ops(whole []Op) []Op {
	var ops []Op
	inside := false
	var product Op // the last one so far
	for i, op := range whole {
		if op.Class == Product {
			product = op
		}
		if op.Routed != NotRouted && d.Dispatches() {
			if op.Routed == ByExpert && whole[i-1].Routed == ByToken {
				ops = append(ops, Within(op.Modules, d.dispatch(op))...)
			}
			ops = append(ops, d.routedOp(op))
			if op.Routed == ByExpert && whole[i+1].Routed == ByToken {
				ops = append(ops, Within(op.Modules, d.combine(product))...)
			}
			continue
		}
		if op.Enters && d.TensorParts() > 1 {
			inside = true
			ops = append(ops, d.enterEach(whole[i:])...)
		}
		ops = append(ops, d.op(op, inside))
		if op.Leaves && d.TensorParts() > 1 {
			inside = false
			ops = append(ops, d.leave(op))
		}
		if op.Function == CrossEntropy && d.TensorParts() > 1 {
			ops = append(ops, d.loss(op)...)
		}
	}
	return ops
}

// op returns one device's part of an operation. Outside the parts of a layer that tensor
// parallelism divides, sequence parallelism divides the operations that are not sharded.
func (d division) op(o Op, inside bool) Op {
	t := int64(d.TensorParts())
	switch {
	case o.Sharded && o.Class == Lookup:
		o.Rows /= t
	case o.Sharded && o.Class == Attention:
		o.Count, o.Elements, o.Passed = o.Count/t, o.Elements/t, o.Passed/t
		o.divideMoved(t)
	case o.Sharded && o.Class == Scan:
		o.Count, o.Elements = o.Count/t, o.Elements/t
		for p := range o.Work {
			o.Work[p] /= float64(t)
		}
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
	case d.Sequence && !inside && o.Class == Product && o.Weight:
		o.Rows /= t
	case o.Sharded || d.Sequence && !inside && o.Class != Product:
		o.Elements /= t
		if o.UnlessMultiple != 0 {
			o.Count /= t
		}
		o.divideMoved(t)
	}
	return o
}

// divideMoved divides what an operation moves between n devices.
func (o *Op) divideMoved(n int64) {
	for p := range o.Moved {
		o.Moved[p], o.Writes[p], o.Mask[p] = o.Moved[p]/n, o.Writes[p]/n, o.Mask[p]/n
	}
}

// enterEach returns the exchanges before a divided part, which is at the beginning of the operations: one, or with
// EachProduct one for every product that reads the part's input.
func (d division) enterEach(ops []Op) (list []Op) {
	list = append(list, d.enter(ops[0]))
	if !d.Sequence || !d.EachProduct {
		return list
	}
	list[0].Exchanges[WeightGradient] = group.Transfer{}
	for _, op := range ops[1:] {
		if op.Leaves {
			break
		}
		if op.Class == Product && op.Weight && op.Rows*op.Inner == ops[0].Rows*ops[0].Inner {
			again := d.enter(op)
			again.Exchanges[WeightGradient] = group.Transfer{}
			list = append(list, again)
		}
	}
	return list
}

// enter returns the exchange before a divided part of a layer (f of Shoeybi et al. 2019): nothing in
// F and an all-reduce of the input gradients in I; with sequence parallelism an all-gather in F and a
// reduce-scatter in I. The gathered input is not kept, so a product with a weight gathers it again in
// W.
func (d division) enter(first Op) Op {
	n := first.Elements
	if first.Class == Product {
		n = first.Rows * first.Inner
	}
	op := Op{Name: first.Name + ".enter", Class: Exchange, Overlapped: d.Overlap, Modules: first.Modules}
	if !d.Sequence {
		if first.NoInputGradient {
			return op
		}
		op.Exchanges[InputGradient] = group.Transfer{Collective: group.AllReduce, Elements: n}
		return op
	}
	op.Exchanges[Forward] = group.Transfer{Collective: group.AllGather, Elements: n}
	if !first.NoInputGradient {
		op.Exchanges[InputGradient] = group.Transfer{Collective: group.ReduceScatter, Elements: n}
	}
	if first.Weight {
		op.Exchanges[WeightGradient] = group.Transfer{Collective: group.AllGather, Elements: n}
	}
	return op
}

// leave returns the exchange after a divided part of a layer (g of Shoeybi et al. 2019): an
// all-reduce of the results in F; with sequence parallelism a reduce-scatter in F and an all-gather
// of the gradients in I.
func (d division) leave(last Op) Op {
	n := last.Elements
	if last.Class == Product {
		n = last.Rows * last.Cols
	}
	op := Op{Name: last.Name + ".leave", Class: Exchange, Modules: last.Modules}
	if !d.Sequence {
		op.Exchanges[Forward] = group.Transfer{Collective: group.AllReduce, Elements: n}
		return op
	}
	op.Exchanges[Forward] = group.Transfer{Collective: group.ReduceScatter, Elements: n}
	op.Exchanges[InputGradient] = group.Transfer{Collective: group.AllGather, Elements: n}
	return op
}

// loss returns the exchanges of a cross-entropy over a divided vocabulary, all in F: for every
// token the largest logit, the target's logit and the sum, in fp32.
func (d division) loss(o Op) []Op {
	var ops []Op
	for _, name := range []string{"max", "target", "sum"} {
		op := Op{Name: o.Name + "." + name, Class: Exchange}
		op.Exchanges[Forward] = group.Transfer{Collective: group.AllReduce, Elements: o.Rows, ElementBytes: 4}
		ops = append(ops, op)
	}
	return ops
}
