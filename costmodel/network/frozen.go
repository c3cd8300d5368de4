package network

import (
	"cmp"
	"slices"
)

// Idle reports whether a pass of an operation does nothing because no gradient is wanted, or because
// it is an operation of the backward alone.
func (o Op) Idle(p Pass) bool {
	return p == WeightGradient && o.Frozen || p == InputGradient && o.NoInputGradient || p == Forward && o.BackwardOnly
}

// Unpacked returns the bytes that a pass of a product moves to make weights of those that are held, in how many
// kernels of their own.
func (o Op) Unpacked(p Pass) (bytes int64, kernels int) {
	if o.Idle(p) {
		return 0, 0
	}
	return o.Format.Unpacking(o.Weights(), p == InputGradient)
}

// ForwardOnly returns the operation as it is where no gradient goes back through it.
func (o Op) ForwardOnly() Op {
	o.NoInputGradient = true
	o.Moved[InputGradient], o.Writes[InputGradient], o.Mask[InputGradient] = 0, 0, 0
	o.Exchanges[InputGradient].Collective = 0
	return o
}

// Trained is the number of parameters that training changes.
func (n Network) Trained() int64 {
	return n.Parameters() - sum(n.Layers, func(l Layer) int64 { return elementsOf(l.Frozen) })
}

// ModelFLOPs returns the FLOPs of training with a sample by definition: three times the forward, but twice the
// forward for products with frozen weights, whose gradients are not wanted, and once where nothing goes back to
// anything that is trained. Attention counts the whole square, and of a window what is inside it.
func (n Network) ModelFLOPs() float64 {
	return n.weighted(Forward, func(l Layer, o Op) float64 {
		times := 3.0
		if o.Frozen {
			times--
		}
		if len(l.Frozen) > 0 && o.NoInputGradient {
			times--
			if o.Weights() == 0 { // its W is part of its I
				times--
			}
		}
		return times * cmp.Or(o.Counted, 1)
	})
}

// Windows reports whether model FLOPs leave out a part of attention, which is outside of windows.
func (n Network) Windows() bool {
	return slices.ContainsFunc(n.Layers, func(l Layer) bool {
		return slices.ContainsFunc(l.Ops, func(o Op) bool { return o.Counted > 0 })
	})
}

// elementsOf counts the elements of tensors.
func elementsOf(tensors []Tensor) int64 {
	return sum(tensors, func(t Tensor) int64 { return t.Shape.Elements() })
}

// Vocabulary is the number of rows of the first table of an embedding, trained or frozen.
func (n Network) Vocabulary() int {
	return slices.Concat(n.Layers[0].Params, n.Layers[0].Frozen)[0].Shape[0]
}
