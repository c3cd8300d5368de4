package training

import (
	"slices"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// A working follows the operations of a frozen layer.
type working struct {
	*freezing
	block, adapts bool
	live          bool
	ops           []network.Op
	groups        []linearGroup
	dead          map[string]bool // operations through which no gradient goes back
	deadCore      bool            // the same for attention
	keepsOutput   bool            // the last product has an adapter
}

// A linearGroup is products with the same left operand, and what their adapters keep.
type linearGroup struct {
	products []network.Op
	adapted  []bool
	kept     []network.Buffer
}

// trains reports whether a product of the group has an adapter.
func (g *linearGroup) trains() bool { return slices.Contains(g.adapted, true) }

// follow rewrites the operations of a layer.
func (w *working) follow(l network.Layer) {
	w.dead = map[string]bool{}
	for i := 0; i < len(l.Ops); {
		op := l.Ops[i]
		if !isLinear(op) {
			w.between(op, l.Ops[i+1:])
			i++
			continue
		}
		g := linearGroup{products: sameLeft(l.Ops[i:])}
		for _, p := range g.products {
			g.adapted = append(g.adapted, w.adapts && w.Adapter.targets(p, w.block))
		}
		w.keepsOutput = g.adapted[len(g.adapted)-1]
		for k, p := range g.products {
			w.product(&g, p, g.adapted[k])
		}
		w.groups, i, w.live = append(w.groups, g), i+len(g.products), w.live || g.trains()
	}
}

// sameLeft returns the products at the beginning of a list of operations that have the same left operand.
func sameLeft(ops []network.Op) []network.Op {
	n := 1
	for n < len(ops) && isLinear(ops[n]) && !ops[n].RowParallel && !ops[0].RowParallel &&
		ops[n].Rows == ops[0].Rows && ops[n].Inner == ops[0].Inner && ops[n].Experts == ops[0].Experts {
		n++
	}
	return ops[:n]
}

// between adds an operation that is not a linear layer. Of an exchange W is for a product after it.
func (w *working) between(op network.Op, after []network.Op) {
	op.Moved[network.WeightGradient], op.Writes[network.WeightGradient] = 0, 0
	op.Frozen = op.Class == network.Lookup
	if op.Class == network.Exchange {
		at := slices.IndexFunc(after, isLinear)
		if at < 0 || !slices.ContainsFunc(sameLeft(after[at:]), func(o network.Op) bool {
			return w.adapts && w.Adapter.targets(o, w.block)
		}) {
			op.Exchanges[network.WeightGradient] = group.Transfer{}
		}
	}
	if !w.live {
		op = op.ForwardOnly()
		w.dead[op.Name] = true
		w.deadCore = w.deadCore || op.Modules&(network.Square|network.FusedCore) != 0
	}
	w.ops = append(w.ops, op)
}

// product adds a frozen product, and its adapter if it has one.
func (w *working) product(g *linearGroup, p network.Op, adapted bool) {
	left, out := max(1, p.Count)*p.Rows*p.Inner, max(1, p.Count)*p.Rows*p.Cols
	a := p // with the same left operand, in the same parts of the block
	p.Frozen, p.NoInputGradient = true, p.NoInputGradient || !w.live
	p.GradientMoved, p.GradientWrites, p.AddsGradient = 0, 0, false
	if w.packs(p) {
		p.Format = w.packed()
	}
	w.dead[p.Name] = p.NoInputGradient && !adapted
	w.ops = append(w.ops, p)
	if !adapted {
		return
	}
	rank := int64(w.Adapter.Rank)
	name := a.Name
	a.Bias, a.Enters, a.Leaves, a.Fused, a.NoInputGradient = false, false, false, false, p.NoInputGradient
	a.Name, a.Cols, a.Wide = name+adapterDown, rank, p.Wide || w.Narrow()
	b := a
	b.Name, b.Inner, b.Cols, b.Left, b.NoInputGradient, b.RowParallel = name+adapterUp, rank, p.Cols, 0, false, false
	if w.Adapter.FP32 {
		w.ops = append(w.ops, w.widen(name, left, a))
	}
	if w.Adapter.Dropout > 0 {
		w.ops = append(w.ops, w.drop(name, left, a))
	}
	g.kept = append(g.kept, w.keptByAdapter(name, p, a)...)
	w.ops = append(w.ops, a, b, w.sum(name, out, left, a))
}

// packs reports whether the weight of a product is in 4 bits.
func (w *working) packs(p network.Op) bool {
	return w.Adapter.Kind == AdapterQLoRA && (w.block || w.Adapter.PackedHead && targetOf(p.Name) == "head")
}

// drop makes the dropout before an adapter.
func (w *working) drop(name string, left int64, a network.Op) network.Op {
	mask := network.NewElementwise(name+adapterDropout, left, network.Traffic{Read: 2, Written: 2},
		network.Traffic{Read: 2, Written: 2})
	mask.Mask, mask.Modules = [3]int64{network.Forward: left, network.InputGradient: left}, a.Modules
	mask.Routed = a.Routed
	if a.NoInputGradient {
		mask = mask.ForwardOnly()
	}
	return mask
}

// keptByAdapter lists what the adapter of a product keeps: with dropout or in fp32 an input of its own, and what is
// between its two products; a is the first.
func (w *working) keptByAdapter(name string, p, a network.Op) (kept []network.Buffer) {
	rows, element := int(max(1, p.Count)*p.Rows), 0 // as activations
	if w.Adapter.FP32 {
		element = 4
	}
	keep := func(name string, width int64, element int, lifetime network.Lifetime, modules network.Module) {
		kept = append(kept, network.Buffer{
			Name: name, Shape: network.Dims{rows, int(width)}, ElementBytes: element, Lifetime: lifetime,
			Modules: modules, Routed: p.Routed,
		})
	}
	switch {
	case w.Adapter.Dropout > 0:
		keep(name+adapterDropout+".mask", p.Inner, 1, network.ForwardToInput, p.Modules)
		keep(name+adapterDropout+".output", p.Inner, element, network.ForwardToWeight, p.Modules)
	case w.Adapter.FP32:
		keep(a.Name+".input", p.Inner, element, network.ForwardToWeight, p.Modules)
	}
	keep(a.Name+".result", a.Cols, element, network.ForwardToWeight, p.Modules)
	keep(a.Name+".output_gradient", a.Cols, element, network.InputToWeight, 0)
	return kept
}

// widen makes the copy of an adapter's input in fp32. I makes its gradient one of 16 bits.
func (w *working) widen(name string, left int64, a network.Op) network.Op {
	copied := network.NewElementwise(name+".lora_fp32", left, network.Traffic{Read: 2, Written: 4},
		network.Traffic{Read: 4, Written: 2})
	copied.Modules, copied.Numbers, copied.Routed = a.Modules, network.Mixed, a.Routed
	if a.NoInputGradient {
		copied = copied.ForwardOnly()
	}
	return copied
}

// sum makes the scaled sum of the results of a product and its adapter, in one kernel. I scales the gradient
// for the adapter, and adds the gradients of the left operand.
func (w *working) sum(name string, out, left int64, a network.Op) network.Op {
	sum := network.NewElementwise(name+".lora_sum", out, network.Traffic{Read: 4, Written: 2},
		network.Traffic{Read: 2, Written: 2})
	if w.Adapter.FP32 {
		// The adapter's result is scaled, the sum made in fp32 and then in 16 bits, by a kernel each. I makes the
		// gradient fp32, scales it for the adapter, and makes that of the product 16 bits.
		sum = network.NewElementwise(name+".lora_sum", out, network.Traffic{Read: 14, Written: 10},
			network.Traffic{Read: 10, Written: 10})
		sum.Launches, sum.Numbers = [3]int{network.Forward: 3, network.InputGradient: 3}, network.Mixed
	}
	sum.Modules, sum.Routed = a.Modules, a.Routed
	if !a.NoInputGradient {
		both := network.Traffic{Read: 4, Written: 2}
		sum.Moved[network.InputGradient] += both.Moved(left)
		sum.Writes[network.InputGradient] += both.Writes(left)
		sum.Launches[network.InputGradient] = max(1, sum.Launches[network.InputGradient]) + 1
	}
	return sum
}
