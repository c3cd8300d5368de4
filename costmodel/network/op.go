package network

import (
	"fmt"

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

// OpClass says what bounds an operation and how its FLOPs and traffic follow.
type OpClass uint8

const (
	Product     OpClass = iota // matrix product, or a convolution as one
	Elementwise                // bound by memory: activation functions, norms, softmax, sums, pooling, loss
	Lookup                     // rows gathered from a table: embeddings
	Exchange                   // a collective among the devices of a tensor-parallel group
	Attention                  // the core of attention in one kernel, which keeps no square (see attention.go)
)

// String names the class in lower case.
func (c OpClass) String() string {
	return nameOf("Class", uint8(c), "product", "elementwise", "lookup", "exchange", "attention")
}

// Function is what an Elementwise operation in a KindChain computes.
type Function uint8

const (
	NoFunction   Function = iota // not described
	ReLU                         // max(x, 0)
	MaxPool                      // the largest of 2×2 pixels
	Spread                       // one pixel repeated over the output's square
	LayerNorm                    // of the last axis, with gain and bias
	CrossEntropy                 // of logits and a target, at the network's end
)

// String names the function in lower case.
func (f Function) String() string {
	return nameOf("Function", uint8(f), "none", "relu", "max pool", "spread", "layer norm", "cross entropy")
}

// Op is one operation of the size of a kernel. Which fields count depends on
// Class; all numbers are per sample, and of one device.
type Op struct {
	Name     string
	Class    OpClass
	Function Function // of an Elementwise operation in a KindChain

	// Product: Count products of Rows×Inner by Inner×Cols.
	// Lookup: a table of Rows×Cols. Elementwise: Rows targets of a loss, Count
	// matrices of attention. Attention: Count heads of Inner features, with Rows
	// queries and Cols keys.
	Count, Rows, Inner, Cols int64

	// Pairs is how many pairs of a query and a key Attention computes for a head, and Values
	// the features of its values, where they are not Inner.
	Pairs, Values int64

	// Blocks is in how many kernels, one after another, Attention is computed; 0 means 1.
	// Passed is the elements of keys and values that a device has, where they go round
	// beside these (see PassedBeside).
	Blocks, Passed int64

	// Left is the number of elements of all left operands in memory where it
	// is not Count×Rows×Inner: a convolution reads its image, not the matrix of
	// patches.
	Left int64

	// Weight: the right operand is a parameter, read once per microbatch, and W
	// makes its gradient. Otherwise both gradients of the product belong to I.
	Weight bool

	// Experts: there are so many weights, and Rows are shared among them; 0 means
	// one. Rows are taken to be equally many for each.
	Experts int64
	// Apart: each of them has a kernel of its own. Joined: the product is made in the kernel
	// of the one before, whose left operand it has.
	Apart, Joined bool
	// Routed says whose rows these are, in a mixture of experts.
	Routed Routed

	// Bits of the operands of a product with a weight, where these are fewer than an
	// activation's; 0 where they are not. Wide: it keeps those of an activation, as a
	// router does.
	Bits int64
	Wide bool

	// Bias: a vector of Cols is added in the same kernel; W sums its gradient.
	Bias bool

	// NoInputGradient: the left operand is the network's input; I does nothing.
	NoInputGradient bool

	// Elements written by F, for Elementwise and Lookup.
	Elements int64

	// Moved is the number of elements read and written by each pass, indexed by
	// Pass, of what is no Product; 0 where a pass has no such kernel.
	Moved [3]int64
	// Writes is how many of these are written, and Numbers what they are; those of a product
	// are what Gathered counts, as its results are Written.
	Writes  [3]int64
	Numbers Numbers

	// Mask is the number of bytes beside these of a dropout's mask, which F writes and I reads.
	Mask [3]int64

	// Launches is how many kernels a pass launches that moves something, indexed by
	// Pass; 0 means 1.
	Launches [3]int

	// Gathered is the number of elements that W reads and writes in a kernel of its own
	// for one element of a weight, to add its gradient to others or to copy it; it writes
	// GatherWrites of them.
	Gathered, GatherWrites int64
	// Adds: that is to add it to those of earlier microbatches, which the first has not.
	Adds bool

	// Unless, if not 0: the operation runs only over microbatches of a number of
	// samples × Count that is no multiple of it (see KernelsMegatron).
	Unless int64

	// Modules are the parts of a block that it belongs to, with which it is run again.
	Modules Module

	// Sharded: divided among the devices of a Megatron tensor-parallel group. A
	// product with a weight is cut along its columns, or along Inner where it is
	// RowParallel; one without along Count; a table along its rows.
	Sharded, RowParallel bool

	// Enters and Leaves bound the part of a layer that a tensor-parallel group
	// divides: the first operation that reads its input, and the one whose
	// results have to be summed (f and g of Shoeybi et al. 2019, figure 3).
	Enters, Leaves bool

	// Exchanges is what an operation of class Exchange does in each pass.
	Exchanges [3]group.Transfer

	// Beside: the exchange of I runs beside W of the products that follow in
	// forward order, and that of W beside their I, where both halves of the
	// backward run together (Megatron's asynchronous tensor parallelism).
	Beside bool
}

// FLOPs of one pass over one sample: two per multiply-add of a Product and of
// Attention over the whole square, 0 for the other classes.
func (o Op) FLOPs(p Pass) int64 {
	n := 2 * o.Count * o.Rows * o.Inner * o.Cols
	switch o.Class {
	case Product:
		return n * o.products(p)
	case Attention:
		return o.attentionFLOPs(p)
	}
	return 0
}

// Traffic is the number of elements that a pass over a microbatch moves to and
// from memory when every operand is read once and every result written once.
// A weight is read once per microbatch, activations once per sample. Adding a
// weight gradient to that of earlier microbatches is left out.
func (o Op) Traffic(p Pass, samples int64) int64 {
	if samples < 1 || !o.runs(samples) {
		return 0
	}
	if o.Class != Product { // an Exchange moves nothing by itself
		n := samples * o.Moved[p]
		if o.Class == Lookup && p == WeightGradient { // zeros fill the whole table's gradient before rows are added
			n += o.Rows * o.Cols
		}
		return n
	}
	n := o.products(p) * (samples*(o.left()+o.out()) + o.right(samples))
	if o.Bits > 0 { // all but the result
		result := o.Written(p, samples)
		n = result + (n-result)*o.Bits/16
	}
	if o.Bias && p == WeightGradient {
		n += samples*o.out() + o.Cols
	}
	return n
}

// Kernels is how many kernels a pass over a microbatch launches: a product, an
// elementwise operation and a collective are one each, and fused attention three in I: what
// rows of the gradient and of the context have in common, the gradients, and that of q
// converted.
func (o Op) Kernels(p Pass, samples int64) int {
	switch {
	case !o.runs(samples) || o.Joined:
		return 0
	case o.Apart:
		return int(o.products(p) * o.Experts)
	case o.Class == Product && p == WeightGradient && o.Gathered > 0:
		return int(o.products(p)) + 1
	case o.Class == Product:
		return int(o.products(p))
	case o.Class == Attention && p != WeightGradient:
		return o.attentionKernels(p)
	case o.Class == Exchange && o.Exchanges[p].Collective != group.NoCollective, o.Moved[p] > 0:
		return max(1, o.Launches[p])
	}
	return 0
}

// runs reports whether there is something to do for so many samples.
func (o Op) runs(samples int64) bool {
	return o.Unless == 0 || samples*o.Count%o.Unless != 0
}

// Weights counts the elements of the parameters that a Product multiplies by.
func (o Op) Weights() int64 {
	if !o.Weight {
		return 0
	}
	return o.right(1)
}

// products counts how many products of the forward size a pass makes.
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

func (o Op) left() int64 {
	if o.Left != 0 {
		return o.Left
	}
	return o.Count * o.Rows * o.Inner
}

func (o Op) right(samples int64) int64 {
	n := o.Count * o.Inner * o.Cols * max(1, o.Experts)
	if !o.Weight {
		n *= samples
	}
	return n
}

func (o Op) out() int64 { return o.Count * o.Rows * o.Cols }

// nameOf finds the name of a constant, or writes type and number of what is none.
func nameOf(constants string, i uint8, names ...string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", constants, i)
}
