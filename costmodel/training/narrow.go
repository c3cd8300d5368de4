package training

import (
	"slices"
	"strings"

	"psim/costmodel/frozen"
	"psim/costmodel/group"
	"psim/costmodel/network"
)

// narrowing rewrites one block for the recipe of its scaling.
type narrowing struct {
	scaling
	devices  int64            // of a tensor-parallel group
	repeated network.Module   // the parts that recomputation runs again
	buffers  []network.Buffer // of the block
	claimed  []bool           // whether a buffer belongs to a product that has been rewritten
	wide     []bool           // whether it belongs to a product that stays wide
	frozen   frozen.Format    // of weights that are not trained
	operand  *network.Op      // the last frozen product, as long as its left operand is that of the next
	added    []network.Buffer // narrow copies that the block did not have
}

// layer rewrites the operations and the buffers of a block.
func (w *narrowing) layer(l *network.Layer) {
	w.buffers, w.claimed = slices.Clone(l.Buffers), make([]bool, len(l.Buffers))
	w.wide = make([]bool, len(l.Buffers))
	for _, op := range l.Ops {
		if op.Wide {
			if i := w.claim(network.ForwardToWeight, op, op.Rows*op.Inner); i >= 0 {
				w.wide[i] = true
			}
		}
	}
	var ops []network.Op
	for i := 0; i < len(l.Ops); {
		op := l.Ops[i]
		if !narrows(op) {
			ops, i = append(ops, op), i+1
			if !isAdapters(op) {
				w.operand = nil
			}
			continue
		}
		products := sameOperand(l.Ops[i:])
		i += len(products)
		var leave *network.Op
		if i < len(l.Ops) && gathers(l.Ops[i], network.InputGradient) {
			leave = &l.Ops[i]
		}
		ops = w.products(ops, products, leave != nil)
		if leave != nil {
			exchange := *leave
			exchange.Exchanges[network.InputGradient] = w.transfer(exchange.Exchanges[network.InputGradient])
			ops, i = append(ops, exchange), i+1
		}
	}
	l.Ops, l.Buffers = ops, append(w.keepContext(*l), w.added...)
}

// narrows reports whether an operation is a product with narrow operands.
func narrows(o network.Op) bool { return o.Class == network.Product && o.Weight && !o.Wide }

// gathers reports whether a pass of an operation gathers a tensor over a tensor-parallel group.
func gathers(o network.Op, p network.Pass) bool {
	return o.Routed == network.NotRouted && o.Exchanges[p].Collective == group.AllGather
}

// sameOperand returns the products at the start of a list that share their left operand, which
// is made narrow once.
func sameOperand(ops []network.Op) []network.Op {
	first := ops[0]
	n := 1
	for n < len(ops) {
		next := ops[n]
		if !narrows(next) || next.RowParallel || first.RowParallel ||
			next.Rows != first.Rows || next.Inner != first.Inner || next.Experts != first.Experts {
			break
		}
		n++
	}
	return ops[:n]
}

// products appends products that share an operand. Before them it puts the kernel that makes
// the operand narrow in F, and the gradients of their results in I. A tensor that a
// tensor-parallel group gathers is made narrow before it is sent (Transformer Engine,
// distributed.py); gradientGathered says so of the gradients.
func (w *narrowing) products(ops, products []network.Op, gradientGathered bool) []network.Op {
	first := products[0]
	operand, result := max(1, first.Count)*first.Rows*first.Inner, int64(0)
	for _, p := range products {
		result += max(1, p.Count) * p.Rows * p.Cols
	}
	if first.Frozen {
		return w.frozenProducts(ops, products, operand, result)
	}
	w.keep(network.ForwardToWeight, first, first.Name+".input", operand)
	w.keepGradients(products, result)
	at := len(ops)
	if at > 0 && gathers(ops[at-1], network.Forward) {
		at--
		operand /= w.devices
		enter := &ops[at]
		for _, p := range []network.Pass{network.Forward, network.WeightGradient} {
			enter.Exchanges[p] = w.transfer(enter.Exchanges[p])
		}
	}
	if gradientGathered {
		result /= w.devices
	}
	ops = slices.Insert(ops, at, w.cast(ops, first, operand, result))
	for _, p := range products {
		p.Bits = w.bits
		ops = append(ops, p)
	}
	return ops
}

// frozenProducts appends products with frozen weights, which keep nothing: their operands and the gradients of their
// results are made narrow along rows alone, since no gradient of a weight needs them along columns. Adapters read the
// wide ones. What a tensor-parallel group gathers stays wide.
func (w *narrowing) frozenProducts(ops, products []network.Op, operand, result int64) []network.Op {
	first, rows := products[0], *w
	rows.copies = 1
	cast := rows.cast(ops, first, operand, result)
	if last := w.operand; last != nil && last.Rows == first.Rows && last.Inner == first.Inner && !last.RowParallel {
		cast.Moved[network.Forward], cast.Writes[network.Forward] = 0, 0 // it has been made narrow
	}
	if first.NoInputGradient {
		cast = cast.ForwardOnly()
	}
	ops = append(ops, cast)
	for _, p := range products {
		p.Bits, p.Format = w.bits, w.frozen
		ops = append(ops, p)
	}
	w.operand = &first
	return ops
}

// isAdapters reports whether an operation belongs to an adapter, and so leaves the operand of the product before.
func isAdapters(o network.Op) bool {
	_, part, _ := strings.Cut(o.Name, adapterPrefix)
	return part != ""
}

// holdFrozen makes the weights of a narrow block narrow that are not trained.
func (w *narrowing) holdFrozen(l *network.Layer) {
	l.Frozen = slices.Clone(l.Frozen)
	for i, t := range l.Frozen {
		wide := slices.ContainsFunc(l.Ops, func(o network.Op) bool {
			return o.Wide && strings.HasSuffix(t.Name, "."+o.Name+".weight")
		})
		if !t.Norm && len(t.Shape) > 1 && !wide {
			l.Frozen[i].Format = w.frozen
		}
	}
}

// frozenFormat returns how weights are held that are not trained: as products multiply them.
func (t Options) frozenFormat() frozen.Format {
	switch {
	case t.Precision == PrecisionNVFP4:
		return frozen.NVFP4
	case t.Precision == PrecisionMXFP8:
		return frozen.MXFP8
	case t.BothWays && t.FP8Recipe != RecipeBlockwise:
		return frozen.FP8
	}
	return frozen.FP8Turned
}

// cast returns the kernel that makes operand numbers narrow in F and result numbers in I, given
// the operations before it and the first product after it.
func (w *narrowing) cast(before []network.Op, first network.Op, operand, result int64) network.Op {
	cast := network.Op{
		Name: first.Name + ".cast", Class: network.Elementwise, Elements: operand,
		Modules: first.Modules, Routed: first.Routed,
		Moved:  [3]int64{network.Forward: w.moved(operand), network.InputGradient: w.moved(result)},
		Writes: [3]int64{network.Forward: w.writes(operand), network.InputGradient: w.writes(result)},
	}
	// In 4 bits a kernel takes the tokens of all experts (TransformerEngine, pytorch/csrc/extensions/cast.cpp,
	// split_quantize_nvfp4_impl, since 2025-12).
	kernels := w.reads
	if first.KernelPerExpert && w.bits > 4 {
		kernels *= first.Experts
	}
	cast.Launches = [3]int{network.Forward: int(kernels), network.InputGradient: int(kernels)}
	if first.Routed == network.ByExpert && !first.RowParallel && slices.ContainsFunc(before, narrowDispatch) {
		// The operand arrives narrow, so only the other copy is made.
		cast.Moved[network.Forward] = (w.copies - 1) * w.bytes(operand)
		cast.Writes[network.Forward] = cast.Moved[network.Forward] / 2
	}
	return cast
}

// narrowDispatch reports whether an operation sends tokens to experts in 8 bits.
func narrowDispatch(o network.Op) bool {
	t := o.Exchanges[network.Forward]
	return t.Collective == group.AllToAll && t.ElementBytes == 1
}

// moved returns the number of elements of 16 bits that are read and written to make n numbers
// narrow.
func (w *narrowing) moved(n int64) int64 { return w.reads*n + w.writes(n) }

// writes returns the number of elements of 16 bits that are written to make n numbers narrow.
func (w *narrowing) writes(n int64) int64 { return w.copies * w.bytes(n) / 2 }

// transfer makes a tensor narrow that is gathered.
func (w *narrowing) transfer(t group.Transfer) group.Transfer {
	if t.Collective == group.AllGather {
		t.Elements, t.ElementBytes = w.bytes(t.Elements), 1
	}
	return t
}

// keep makes the buffer narrow that holds n numbers for a product's W, or adds a narrow one. A
// buffer from which recomputation starts stays as it is, and is made narrow again later.
func (w *narrowing) keep(lifetime network.Lifetime, product network.Op, name string, n int64) {
	if i := w.claim(lifetime, product, n); i >= 0 {
		b := &w.buffers[i]
		if n = b.Shape.Elements(); product.Modules&w.repeated == 0 || b.Modules&w.repeated != 0 {
			b.Shape, b.ElementBytes = network.Dims{int(w.bytes(n))}, 1
			return
		}
	}
	w.added = append(w.added, network.Buffer{
		Name: name + ".narrow", Shape: network.Dims{int(w.bytes(n))}, ElementBytes: 1,
		Lifetime: lifetime, Modules: product.Modules,
	})
}

// keepGradients keeps the gradients of the products' results for W: as one tensor of n numbers
// if the block has such a buffer, else one tensor for each product.
func (w *narrowing) keepGradients(products []network.Op, n int64) {
	if w.find(network.InputToWeight, products[0], n) >= 0 {
		w.keep(network.InputToWeight, products[0], products[0].Name+".output_gradient", n)
		return
	}
	for _, p := range products {
		w.keep(network.InputToWeight, p, p.Name+".output_gradient", max(1, p.Count)*p.Rows*p.Cols)
	}
}

// claim finds a buffer for a product, and marks it as taken; −1 if there is none.
func (w *narrowing) claim(lifetime network.Lifetime, product network.Op, n int64) int {
	i := w.find(lifetime, product, n)
	if i >= 0 {
		w.claimed[i] = true
	}
	return i
}

// find returns the first buffer of n numbers, or of a device's part of them, in the product's
// half of the block that no earlier product has claimed; −1 if there is none.
func (w *narrowing) find(lifetime network.Lifetime, product network.Op, n int64) int {
	for i, b := range w.buffers {
		if w.claimed[i] || half(b.Name) != half(product.Name) || b.Lifetime != lifetime || b.ElementBytes != 0 {
			continue
		}
		size := b.Shape.Elements()
		if size == n || lifetime == network.ForwardToWeight && size*w.devices == n {
			return i
		}
	}
	return -1
}

// keepContext returns the buffers of the block. The I of fused attention reads its result in 16
// bits, so the context is kept in both forms.
func (w *narrowing) keepContext(l network.Layer) []network.Buffer {
	if !slices.ContainsFunc(l.Ops, func(o network.Op) bool { return o.Class == network.Attention }) {
		return w.buffers
	}
	for i, b := range w.buffers {
		if w.claimed[i] && !w.wide[i] && strings.HasSuffix(b.Name, "context") {
			whole := l.Buffers[i]
			whole.Lifetime = network.ForwardToInput
			w.buffers[i].Name += ".narrow"
			w.added = append(w.added, whole)
		}
	}
	return w.buffers
}
