package arch

import (
	"slices"
	"strings"
)

// The legal values of Training.Backward: how a stage takes its backward.
const (
	// BackwardWhole is one backward through all of its layers.
	BackwardWhole = "whole"
	// BackwardPerLayer has a backward for every layer, which frees what that kept.
	BackwardPerLayer = "per-layer"
	// BackwardTwoPass has two for every layer, as a program makes them that calls
	// torch.autograd.grad for the gradients of the layer's parameters and again for that
	// of its input. Each walks the layer from its output: the first makes all weight
	// gradients and every gradient on the way to them, the second makes these again and
	// goes on to the input. Nothing that the layer kept is freed in between
	// (retain_graph). The network's own input has a gradient as well, since every layer
	// is asked for one.
	BackwardTwoPass = "two-pass"
)

// PerLayer reports whether every layer has a backward of its own.
func (t Training) PerLayer() bool { return t.Backward == BackwardPerLayer || t.TwoPass() }

// TwoPass reports whether every layer has two.
func (t Training) TwoPass() bool { return t.Backward == BackwardTwoPass }

// Asked returns a network as it is trained: in the precision, and with layers that make the
// gradients that a backward asks them for, with BackwardTwoPass that of the network's input,
// too.
func (t Training) Asked(n Network) Network {
	n = t.narrowed(n)
	if !t.TwoPass() {
		return n
	}
	n.Layers = slices.Clone(n.Layers)
	for i := range n.Layers {
		l := &n.Layers[i]
		l.Ops = slices.Clone(l.Ops)
		for k := range l.Ops {
			l.Ops[k].NoInputGradient = false
		}
	}
	return n
}

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
