package network

import (
	"slices"
	"strings"
)

// Rewalked lists the operations whose I runs twice with training.BackwardTwoPass: those after
// the first operation with parameters; in a layer with norms, whose gradients I makes, all
// operations. The gradient of the loss is taken once, before both passes.
func (l Layer) Rewalked() []Op {
	from := 1 + slices.IndexFunc(l.Ops, func(o Op) bool { return o.Weight || o.Class == Lookup })
	switch {
	case l.NormParameters() > 0: // the norm is the first operation
		from = 0
	case from == 0:
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.Ops[from:]), func(o Op) bool { return o.Function == CrossEntropy })
}

// Gradients returns the number of gradients that a pass of an operation over a microbatch
// makes, and of their elements. Those of biases are too small to count.
func (o Op) Gradients(p Pass, samples int64) (tensors int, elements int64) {
	switch {
	case p == Forward || o.Kernels(p, samples) == 0 || o.Class == Exchange:
		return 0, 0
	case o.Class == Lookup:
		return 1, o.Rows * o.Cols
	case o.Class == Elementwise:
		n := o.Elements
		if o.Function == MaxPool { // each result has four pixels
			n *= 4
		}
		return 1, n * samples
	case o.Class == Attention, o.Class == Scan: // the gradients of q, k and v
		return 3, 3 * o.Elements * samples
	case p == WeightGradient:
		return 1, o.right(samples)
	case !o.Weight:
		return 2, o.left()*samples + o.right(samples)
	}
	return 1, o.left() * samples
}

// Makes reports whether an operation makes the gradient of a tensor of its layer. A tensor has
// the name of the operation that uses it; an expert's tensor also has the expert's number.
func (o Op) Makes(t Tensor) bool {
	owner, _ := cutLast(t.Name)
	head, last := cutLast(owner)
	if !t.Expert || head == "" && last == owner {
		return endsWith(owner, o.Name)
	}
	head, _ = cutLast(head) // the number of the expert
	n := len(o.Name) - len(last)
	return o.Name == last || n > 1 && o.Name[n-1] == '.' && o.Name[n:] == last && endsWith(head, o.Name[:n-1])
}

// cutLast cuts off the part of a name after its last dot.
func cutLast(name string) (before, last string) {
	i := strings.LastIndexByte(name, '.')
	return name[:max(0, i)], name[i+1:]
}

// endsWith reports whether a name ends with some of its parts between dots.
func endsWith(name, parts string) bool {
	n := len(name) - len(parts)
	return strings.HasSuffix(name, parts) && (n == 0 || name[n-1] == '.')
}
