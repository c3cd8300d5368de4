package network

import (
	"slices"
	"strings"
)

// Rewalked lists the operations whose I runs twice with BackwardTwoPass: those behind
// the first that has parameters, and with norms, whose gradients I makes, that one, too.
// The loss is no layer's: its gradient is taken once, before.
func (l Layer) Rewalked() []Op {
	from := 1 + slices.IndexFunc(l.Ops, func(o Op) bool { return o.Weight || o.Class == Lookup })
	switch {
	case l.NormParameters() > 0: // norms come first
		from = 0
	case from == 0:
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.Ops[from:]), func(o Op) bool { return o.Function == CrossEntropy })
}

// Gradients counts the tensors and the elements of the gradients that a pass of an
// operation over a microbatch makes. Those of biases are too small to count.
func (o Op) Gradients(p Pass, samples int64) (tensors int, elements int64) {
	switch {
	case p == Forward || o.Kernels(p, samples) == 0 || o.Class == Exchange:
		return 0, 0
	case o.Class == Lookup:
		return 1, o.Rows * o.Cols
	case o.Class == Elementwise:
		n := o.Elements
		if o.Function == MaxPool { // of four pixels each
			n *= 4
		}
		return 1, n * samples
	case o.Class == Attention: // of q, k and v
		return 3, 3 * o.Elements * samples
	case p == WeightGradient:
		return 1, o.right(samples)
	case !o.Weight:
		return 2, o.left()*samples + o.right(samples)
	}
	return 1, o.left() * samples
}

// Makes reports whether an operation makes the gradient of a tensor of its layer: a
// tensor is named after the operation that uses it, and an expert's has its number too.
func (o Op) Makes(t Tensor) bool {
	owner, _ := cutLast(t.Name)
	head, last := cutLast(owner)
	if !t.Expert || head == "" && last == owner {
		return endsWith(owner, o.Name)
	}
	head, _ = cutLast(head) // without the number
	n := len(o.Name) - len(last)
	return o.Name == last || n > 1 && o.Name[n-1] == '.' && o.Name[n:] == last && endsWith(head, o.Name[:n-1])
}

// cutLast cuts the last of the parts of a name off, between dots.
func cutLast(name string) (before, last string) {
	i := strings.LastIndexByte(name, '.')
	return name[:max(0, i)], name[i+1:]
}

// endsWith reports whether the last parts of a name are these.
func endsWith(name, parts string) bool {
	n := len(name) - len(parts)
	return strings.HasSuffix(name, parts) && (n == 0 || name[n-1] == '.')
}
