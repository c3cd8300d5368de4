package network

import (
	"fmt"

	"psim/costmodel/frozen"
	"psim/costmodel/group"
)

// Pass is one of the three passes of a layer over a microbatch.
type Pass uint8

const (
	Forward        Pass = iota // F
	InputGradient              // I
	WeightGradient             // W
)

// String is the letter used for the pass in schedules.
func (p Pass) String() string {
	return nameOf("Pass", uint8(p), "F", "I", "W")
}

// OpClass says what bounds the time of an operation, and how its FLOPs and traffic follow.
type OpClass uint8

const (
	// Product is a matrix product, or a convolution computed as one.
	Product OpClass = iota
	// Elementwise is bound by memory: activation functions, norms, softmax, sums, pooling,
	// the loss.
	Elementwise
	// Lookup gathers rows from a table: embeddings.
	Lookup
	// Exchange is a collective among the devices of a group.
	Exchange
	// Attention is the core of attention in one kernel, which keeps no square (attention.go).
	Attention
	// Scan is a recurrence over tokens, computed by products in chunks of them.
	Scan
)

// String names the class in lower case.
func (c OpClass) String() string {
	return nameOf("Class", uint8(c), "product", "elementwise", "lookup", "exchange", "attention", "scan")
}

// Function is what an Elementwise operation in a KindChain computes.
type Function uint8

const (
	NoFunction   Function = iota // not described
	ReLU                         // max(x, 0)
	MaxPool                      // the largest of 2×2 pixels
	Spread                       // one pixel repeated over the square of the output
	LayerNorm                    // over the last axis, with gain and bias
	CrossEntropy                 // of logits and a target, at the end of the network
)

// String names the function in lower case.
func (f Function) String() string {
	return nameOf("Function", uint8(f), "none", "relu", "max pool", "spread", "layer norm", "cross entropy")
}

// Op is one operation of the size of a kernel. Class decides which fields count. All numbers
// are per sample, and those of one device.
type Op struct {
	Name     string
	Class    OpClass
	Function Function // of an Elementwise operation in a KindChain
	Modules  Module   // the parts of a block that it belongs to; it is run again with them

	// Sizes.

	// Product: Count products of Rows×Inner by Inner×Cols. Lookup: a table of Rows×Cols.
	// Attention: Count heads of Inner features, with Rows queries and Cols keys.
	// Elementwise: Rows targets of a loss, or Count matrices of attention.
	Count, Rows, Inner, Cols int64
	// Elements is the number of elements that F of an Elementwise, Lookup or Attention writes.
	Elements int64
	// Left is the number of elements of all left operands in memory, if that differs from
	// Count×Rows×Inner: a convolution reads its image, not the matrix of patches.
	Left int64
	// Pairs is the number of pairs of a query and a key that Attention computes for each
	// head. Values is the number of features of its values, if it differs from Inner.
	Pairs, Values int64
	// Counted is the share of its FLOPs that count as the model's, those inside a window; 0 means all.
	Counted float64
	// Work counts the multiply-adds of a Scan, which has Count heads of Inner and Values features.
	Work [3]float64
	// Blocks is the number of kernels in which Attention is computed, one after another; 0
	// means 1. Passed is the number of elements of keys and values on a device, if they go
	// round from device to device meanwhile (see PassedOn).
	Blocks, Passed int64

	// What a Product multiplies by.

	// Weight: the right operand is a parameter. It is read once per microbatch, and W makes
	// its gradient. Otherwise I makes the gradients of both operands.
	Weight bool
	// Bias: a vector of Cols is added in the same kernel; W sums its gradient.
	Bias bool
	// NoInputGradient: no gradient of the left operand is wanted, since it is the network's input or
	// nothing before it is trained. I does nothing, whatever the class.
	NoInputGradient bool
	// BackwardOnly: F does nothing.
	BackwardOnly bool
	// Frozen: the parameters are not trained, so W does nothing. Format says how they are held.
	Frozen bool
	Format frozen.Format
	// Experts is the number of weights among which Rows are divided evenly; 0 means 1.
	Experts int64
	Routed  Routed // which rows these are, in a mixture of experts
	// KernelPerExpert: each of the Experts has a kernel of its own.
	KernelPerExpert bool
	// Fused: the product is made in the kernel of the operation before, which has the same
	// left operand.
	Fused bool
	// Bits of the operands of a product with a weight, if fewer than those of an activation;
	// otherwise 0. Wide: its operands always have the bits of an activation, as in a router.
	Bits int64
	Wide bool

	// Memory traffic and launches. Arrays are indexed by Pass.

	// Moved is the number of elements that a pass reads and writes, Writes the number of them
	// that it writes; 0 if a pass has no kernel. For a Product both follow from its sizes.
	Moved, Writes [3]int64
	// Numbers is the format of Moved; of a Product the format of GradientMoved.
	Numbers Numbers
	// Mask is the size in bytes of a dropout's mask, which F writes and I reads in addition.
	Mask [3]int64
	// Launches is the number of kernels of a pass that moves something; 0 means 1.
	Launches [3]int
	// GradientMoved is the number of elements that W reads and writes per element of a
	// weight, in a kernel of its own that adds the gradient to others or copies it.
	// GradientWrites is the number of them that it writes.
	GradientMoved, GradientWrites int64
	// AddsGradient: that kernel adds the gradient to those of earlier microbatches, so the
	// first microbatch does not run it.
	AddsGradient bool
	// UnlessMultiple, if not 0: the operation runs only if samples × Count is not a multiple
	// of it (see models.KernelSet.MaskedSoftmax).
	UnlessMultiple int64

	// How a group of devices divides it.

	// Sharded: divided among the devices of a tensor-parallel group. A product with a weight
	// is cut along Cols, or along Inner if RowParallel; a product without one along Count; a
	// table along Rows.
	Sharded, RowParallel bool
	// Enters and Leaves bound the part of a layer that a tensor-parallel group divides:
	// Enters marks the first operation that reads the part's input, Leaves the one whose
	// results have to be summed (f and g of Shoeybi et al. 2019, figure 3).
	Enters, Leaves bool
	// Exchanges is the collective of each pass of an Exchange.
	Exchanges [3]group.Transfer
	// Overlapped: in a backward that is not cut into I and W, the exchange of I runs at the
	// same time as the W of the products after it in forward order, and the exchange of W at
	// the same time as their I (asynchronous tensor parallelism).
	Overlapped bool
}

// FLOPs returns the FLOPs of one pass over one sample: two per multiply-add of a Product and of
// Attention over the whole square, those of the Work of a Scan, 0 for the other classes. Long sequences have more
// than an int64 counts.
func (o Op) FLOPs(p Pass) float64 {
	n := 2 * float64(o.Count*o.Rows) * float64(o.Inner*o.Cols)
	switch {
	case o.Idle(p):
		return 0
	case o.Class == Product:
		return n * float64(o.products(p))
	case o.Class == Attention:
		return o.attentionFLOPs(p)
	case o.Class == Scan:
		return 2 * o.Work[p]
	}
	return 0
}

// Traffic returns the number of elements that a pass over a microbatch moves to and from memory
// if every operand is read once and every result written once. A weight is read once per
// microbatch, activations once per sample. Adding a weight gradient to those of earlier
// microbatches does not count.
func (o Op) Traffic(p Pass, samples int64) int64 {
	if samples < 1 || !o.runs(samples) || o.Idle(p) {
		return 0
	}
	if o.Class != Product { // an Exchange moves nothing by itself
		n := samples * o.Moved[p]
		if o.Class == Lookup && p == WeightGradient { // zeros for the whole table, to which rows are added
			n += o.Rows * o.Cols
		}
		return n
	}
	n := o.products(p) * (samples*(o.left()+o.out()) + o.right(samples))
	if o.Bits > 0 { // the operands are narrow, the result is not
		result := o.Written(p, samples)
		n = result + (n-result)*o.Bits/16
	}
	if o.Bias && p == WeightGradient {
		n += samples*o.out() + o.Cols
	}
	return n
}

// Kernels returns the number of kernels that a pass over a microbatch launches: one for a
// product, an elementwise operation and a collective. Fused attention has three in I: a product
// of each row of the context with its gradient, the gradients, and the conversion of q's
// gradient.
func (o Op) Kernels(p Pass, samples int64) int {
	switch {
	case !o.runs(samples) || o.Fused || o.Idle(p):
		return 0
	case o.KernelPerExpert:
		return int(o.products(p) * o.Experts)
	case o.Class == Product && p == WeightGradient && o.GradientMoved > 0:
		return int(o.products(p)) + 1
	case o.Class == Product:
		_, unpacking := o.Unpacked(p)
		return int(o.products(p)) + unpacking
	case o.Class == Attention && p != WeightGradient:
		return o.attentionKernels(p)
	case o.Class == Exchange && o.Exchanges[p].Collective != group.NoCollective, o.Moved[p] > 0:
		return max(1, o.Launches[p])
	}
	return 0
}

// runs reports whether the operation runs for a number of samples.
func (o Op) runs(samples int64) bool {
	return o.UnlessMultiple == 0 || samples*o.Count%o.UnlessMultiple != 0
}

// Weights returns the number of parameters that a Product multiplies by.
func (o Op) Weights() int64 {
	if !o.Weight {
		return 0
	}
	return o.right(1)
}

// products returns the number of products of the forward size that a pass makes.
func (o Op) products(p Pass) int64 {
	switch {
	case p == Forward:
		return 1
	case p == InputGradient && o.NoInputGradient:
		return 0
	case p == InputGradient && !o.Weight:
		return 2
	case p == WeightGradient && !o.Weight:
		return 0
	}
	return 1
}

// left returns the number of elements of the left operands, per sample.
func (o Op) left() int64 {
	if o.Left != 0 {
		return o.Left
	}
	return o.Count * o.Rows * o.Inner
}

// right returns the number of elements of the right operands for a microbatch.
func (o Op) right(samples int64) int64 {
	n := o.Count * o.Inner * o.Cols * max(1, o.Experts)
	if !o.Weight {
		n *= samples
	}
	return n
}

// out returns the number of elements of the results, per sample.
func (o Op) out() int64 { return o.Count * o.Rows * o.Cols }

// nameOf returns the name of a constant, or the type and the number if there is no such constant.
func nameOf(constants string, i uint8, names ...string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", constants, i)
}
