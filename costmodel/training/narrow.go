package training

import (
	"slices"
	"strings"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// narrowing rewrites one block.
type narrowing struct {
	scaling
	devices int64          // of a tensor-parallel group
	again   network.Module // what recomputation runs again
	buffers []network.Buffer
	claimed []bool
	more    []network.Buffer
}

// layer rewrites the operations of a block and its buffers.
func (w *narrowing) layer(l *network.Layer) {
	w.buffers, w.claimed = slices.Clone(l.Buffers), make([]bool, len(l.Buffers))
	for _, op := range l.Ops {
		if op.Wide {
			w.claim(network.ForwardToWeight, op, op.Rows*op.Inner)
		}
	}
	var ops []network.Op
	for i := 0; i < len(l.Ops); {
		op := l.Ops[i]
		if op.Class != network.Product || !op.Weight || op.Wide {
			ops, i = append(ops, op), i+1
			continue
		}
		devices := together(l.Ops[i:])
		i += len(devices)
		var after *network.Op
		if i < len(l.Ops) && l.Ops[i].Routed == network.NotRouted && l.Ops[i].Exchanges[network.InputGradient].Collective == group.AllGather {
			after = &l.Ops[i]
		}
		ops = w.group(ops, devices, after)
		if after != nil {
			leave := *after
			leave.Exchanges[network.InputGradient] = w.transfer(leave.Exchanges[network.InputGradient])
			ops, i = append(ops, leave), i+1
		}
	}
	l.Ops, l.Buffers = ops, append(w.keepContext(*l), w.more...)
}

// together returns the products at the beginning of a list that have one operand, which is
// made narrow once.
func together(ops []network.Op) []network.Op {
	first := ops[0]
	n := 1
	for n < len(ops) {
		next := ops[n]
		if next.Class != network.Product || !next.Weight || next.Wide || next.RowParallel || first.RowParallel ||
			next.Rows != first.Rows || next.Inner != first.Inner || next.Experts != first.Experts {
			break
		}
		n++
	}
	return ops[:n]
}

// group appends products of one operand, with the kernel before them that makes it narrow,
// and in I the gradient of their results. What is gathered among the devices of a group is
// made narrow before (Transformer Engine, distributed.py).
func (w *narrowing) group(ops, products []network.Op, after *network.Op) []network.Op {
	first := products[0]
	operand, result := max(1, first.Count)*first.Rows*first.Inner, int64(0)
	for _, p := range products {
		result += max(1, p.Count) * p.Rows * p.Cols
	}
	w.keep(network.ForwardToWeight, first, first.Name+".input", operand)
	w.keepGradients(products, result)
	at := len(ops)
	if at > 0 && ops[at-1].Routed == network.NotRouted && ops[at-1].Exchanges[network.Forward].Collective == group.AllGather {
		at--
		operand /= w.devices
		enter := &ops[at]
		for _, p := range []network.Pass{network.Forward, network.WeightGradient} {
			enter.Exchanges[p] = w.transfer(enter.Exchanges[p])
		}
	}
	if after != nil {
		result /= w.devices
	}
	cast := network.Op{
		Name: first.Name + ".cast", Class: network.Elementwise, Elements: operand, Modules: first.Modules, Routed: first.Routed,
		Moved:    [3]int64{network.Forward: w.moved(operand), network.InputGradient: w.moved(result)},
		Writes:   [3]int64{network.Forward: w.writes(operand), network.InputGradient: w.writes(result)},
		Launches: [3]int{network.Forward: int(w.reads), network.InputGradient: int(w.reads)},
	}
	if first.KernelPerExpert {
		cast.Launches = [3]int{network.Forward: int(w.reads * first.Experts), network.InputGradient: int(w.reads * first.Experts)}
	}
	if first.Routed == network.ByExpert && !first.RowParallel && slices.ContainsFunc(ops, narrowDispatch) { // it has come narrow
		cast.Moved[network.Forward] = (w.copies - 1) * w.bytes(operand)
		cast.Writes[network.Forward] = cast.Moved[network.Forward] / 2
	}
	ops = slices.Insert(ops, at, cast)
	for _, p := range products {
		p.Bits = w.bits
		ops = append(ops, p)
	}
	return ops
}

// narrowDispatch reports whether an operation sends tokens to experts in 8 bits.
func narrowDispatch(o network.Op) bool {
	t := o.Exchanges[network.Forward]
	return t.Collective == group.AllToAll && t.ElementBytes == 1
}

// moved counts the elements of 16 bits that making n numbers narrow reads and writes: all
// of them as often as the recipe reads, and what is needed along rows and along columns.
func (w *narrowing) moved(n int64) int64 { return w.reads*n + w.writes(n) }

// writes counts those that it writes.
func (w *narrowing) writes(n int64) int64 { return w.copies * w.bytes(n) / 2 }

// transfer makes what is gathered narrow.
func (w *narrowing) transfer(t group.Transfer) group.Transfer {
	if t.Collective == group.AllGather {
		t.Elements, t.ElementBytes = w.bytes(t.Elements), 1
	}
	return t
}

// keep makes the buffer of n numbers narrow that is kept until W, or adds one. What a
// product that runs again begins with stays as it is, and is made narrow again.
func (w *narrowing) keep(lifetime network.Lifetime, first network.Op, name string, n int64) {
	if i := w.claim(lifetime, first, n); i >= 0 {
		b := &w.buffers[i]
		if n = b.Shape.Elements(); first.Modules&w.again == 0 || b.Modules&w.again != 0 {
			b.Shape, b.ElementBytes = network.Dims{int(w.bytes(n))}, 1
			return
		}
	}
	w.more = append(w.more, network.Buffer{Name: name + ".narrow", Shape: network.Dims{int(w.bytes(n))}, ElementBytes: 1, Lifetime: lifetime, Modules: first.Modules})
}

// keepGradients does so with what W needs of the gradients of products' results, one tensor or
// one each.
func (w *narrowing) keepGradients(products []network.Op, together int64) {
	if w.find(network.InputToWeight, products[0], together) >= 0 {
		w.keep(network.InputToWeight, products[0], products[0].Name+".output_gradient", together)
		return
	}
	for _, p := range products {
		w.keep(network.InputToWeight, p, p.Name+".output_gradient", max(1, p.Count)*p.Rows*p.Cols)
	}
}

// claim finds a buffer, which no other product has then.
func (w *narrowing) claim(lifetime network.Lifetime, of network.Op, n int64) int {
	i := w.find(lifetime, of, n)
	if i >= 0 {
		w.claimed[i] = true
	}
	return i
}

// find finds the first buffer of n numbers, or of a device's part of them, in the product's
// half of the block that no product before has; −1 if there is none.
func (w *narrowing) find(lifetime network.Lifetime, of network.Op, n int64) int {
	half := func(name string) string {
		name, _, _ = strings.Cut(name, ".")
		return strings.Replace(name, "block_sparse_moe", "mlp", 1)
	}
	for i, b := range w.buffers {
		size := b.Shape.Elements()
		if !w.claimed[i] && half(b.Name) == half(of.Name) && b.Lifetime == lifetime && b.ElementBytes == 0 && (size == n || lifetime == network.ForwardToWeight && size*w.devices == n) {
			return i
		}
	}
	return -1
}

// keepContext returns the buffers. The result of fused attention is an operand of its own I
// as well, which reads it as it was.
func (w *narrowing) keepContext(l network.Layer) []network.Buffer {
	if !slices.ContainsFunc(l.Ops, func(o network.Op) bool { return o.Class == network.Attention }) {
		return w.buffers
	}
	for i, b := range w.buffers {
		if w.claimed[i] && strings.HasSuffix(b.Name, "context") {
			whole := l.Buffers[i]
			whole.Lifetime = network.ForwardToInput
			w.buffers[i].Name += ".narrow"
			w.more = append(w.more, whole)
		}
	}
	return w.buffers
}
