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
	if w.block && w.Adapter.Kind == AdapterQLoRA {
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
	if w.Adapter.Dropout > 0 {
		mask := network.NewElementwise(name+".lora_dropout", left, network.Traffic{Read: 2, Written: 2},
			network.Traffic{Read: 2, Written: 2})
		mask.Mask, mask.Modules = [3]int64{network.Forward: left, network.InputGradient: left}, p.Modules
		if a.NoInputGradient {
			mask = mask.ForwardOnly()
		}
		w.ops = append(w.ops, mask)
		shape := network.Dims{int(max(1, p.Count) * p.Rows), int(p.Inner)}
		g.kept = append(g.kept,
			network.Buffer{Name: mask.Name + ".mask", Shape: shape, ElementBytes: 1, Modules: p.Modules},
			network.Buffer{
				Name: mask.Name + ".output", Shape: shape, Lifetime: network.ForwardToWeight, Modules: p.Modules,
			})
	}
	between := network.Dims{int(max(1, p.Count) * p.Rows), int(rank)}
	g.kept = append(g.kept,
		network.Buffer{
			Name: a.Name + ".result", Shape: between, Lifetime: network.ForwardToWeight, Modules: p.Modules,
		},
		network.Buffer{Name: a.Name + ".output_gradient", Shape: between, Lifetime: network.InputToWeight})
	w.ops = append(w.ops, a, b, w.sum(name, out, left, a))
}

// sum makes the scaled sum of the results of a product and its adapter, in one kernel. I scales the gradient
// for the adapter, and adds the gradients of the left operand.
func (w *working) sum(name string, out, left int64, a network.Op) network.Op {
	sum := network.NewElementwise(name+".lora_sum", out, network.Traffic{Read: 4, Written: 2},
		network.Traffic{Read: 2, Written: 2})
	sum.Modules = a.Modules
	if !a.NoInputGradient {
		both := network.Traffic{Read: 4, Written: 2}
		sum.Moved[network.InputGradient] += both.Moved(left)
		sum.Writes[network.InputGradient] += both.Writes(left)
		sum.Launches[network.InputGradient] = 2
	}
	return sum
}
