// Package network describes a network: its layers in the order in which they run, their
// operations, the tensors they own and the buffers they keep from one pass to another. It
// knows no times, devices or schedules.
//
//	Network
//	└── Layer          the smallest part that a stage can hold, such as a block
//	    ├── Params     []Tensor: weights, biases, gains
//	    ├── Ops        []Op: one kernel each; FLOPs, bytes and launches of its passes
//	    └── Buffers    []Buffer: activations and gradients that stay between two passes
//
// A layer has three passes. F is the forward. The backward has two halves, which some
// schedules run at different times: InputGradient (I) makes the gradient for the layer
// before, WeightGradient (W) the gradients of weight matrices, embedding tables and linear
// biases (Qi et al. 2024). Gains and biases of norms are so small that I makes their
// gradients.
//
// Numbers are per sample unless a comment says otherwise. A sample is one sequence of a
// language model, or one image. FLOPs count matrix products only, two per multiply-add, and
// attention over the whole square of tokens, as published totals do; [Network.ModelFLOPs] counts
// of a window what is inside it. In a network that a
// group of devices divides (see [Network.Divided]), all numbers are those of one device.
package network

import (
	"slices"

	"psim/costmodel/frozen"
	"psim/costmodel/group"
)

// Dims is the shape of a tensor. For activations it is the shape of one sample, without the
// batch dimension; images are channels × height × width.
type Dims []int

// Elements is the product of the dimensions; 1 for the empty shape.
func (s Dims) Elements() int64 {
	n := int64(1)
	for _, d := range s {
		n *= int64(d)
	}
	return n
}

// Tensor is a parameter tensor. Its name and shape are those of the PyTorch model: weights of
// GPT-2 are [in, out], weights of nn.Linear [out, in].
type Tensor struct {
	Name    string
	Shape   Dims
	Sharded bool          // divided among the devices of a tensor-parallel group
	Axis    int           // the dimension that is divided
	Norm    bool          // a gain or bias of a norm, whose gradient I makes
	Expert  bool          // belongs to one of the layer's Experts
	Format  frozen.Format // of a frozen tensor
	// Deviation is the standard deviation of the normal distribution from which the weight
	// is initialized; 0 stands for √(2/inputs) (He et al. 2015). Gains start at 1 and biases
	// at 0.
	Deviation float64
}

// Layer is the smallest part of a network that a stage can hold.
type Layer struct {
	Name    string
	Kind    LayerKind
	Heads   int      // attention heads of a KindGPTBlock
	Dropout float64  // rate of every dropout in a KindEmbedding or KindGPTBlock
	Params  []Tensor // owned by this layer
	Tied    []Tensor // used here, owned by another layer; copied if that layer is on another rank
	// Frozen and FrozenTied are the same for tensors that are not trained. They are not in Params and Tied.
	Frozen, FrozenTied []Tensor
	Input              Dims // one sample, from the layer before
	Output             Dims // one sample, to the layer after; the logits of the last layer
	Ops                []Op // in forward order; those of the last layer end with the loss
	Experts            int  // MLPs among which a token's experts are chosen; 0 without a mixture
	Active             int  // the number of experts that each token goes through
	// Buffers are kept for the backward passes. A tensor that two layers need is listed once,
	// by the later one.
	Buffers []Buffer
	// KeepsOutput: the I of this layer needs Output, which the next layer lists as its buffer
	// (a final ReLU). A stage that ends here keeps Output as well.
	KeepsOutput bool
	// KeepsGradient: W needs the gradient of Output itself, which is listed as a buffer. A
	// stage that ends here does not free the gradient that it has received.
	KeepsGradient bool
	// ForwardOnly: no gradient goes back through the layer, so it keeps nothing.
	ForwardOnly bool
	// Lowest: all layers below are frozen, so that nothing needs the gradient of this layer's input.
	Lowest bool
	// Repeatable: full recomputation keeps only Input and runs F again.
	Repeatable bool
	// Whole: full recomputation does not repeat this layer. Joined: it repeats this layer
	// together with the one before, and keeps the input only of the first of them. Both are
	// set by training.Options.Units.
	KeptWhole, JoinsPrevious bool
}

// LayerKind says how the operations of a layer are connected. An executor needs it together
// with Ops, Params and Input.
type LayerKind uint8

const (
	// KindUnknown is not described well enough to be executed (llama).
	KindUnknown LayerKind = iota
	// KindChain: each operation takes the result of the one before. Without operations the
	// input is passed on, in the shape of Output.
	KindChain
	// KindEmbedding is the sum of rows of two tables, by token and by position.
	KindEmbedding
	// KindGPTBlock is x + attention(norm(x)), then x + MLP(norm(x)).
	KindGPTBlock
)

// String names the kind in lower case.
func (k LayerKind) String() string {
	return nameOf("Kind", uint8(k), "unknown", "chain", "embedding", "gpt block")
}

// Idle reports whether the layer passes its input on unchanged, such as a dropout of rate 0.
func (l Layer) Idle() bool { return len(l.Ops) == 0 && len(l.Input) == len(l.Output) }

// Shares reports whether two layers share their operations and buffers, as equal blocks of a
// network do, and are repeated in the same way. Then they cost the same.
func (l Layer) Shares(m Layer) bool {
	if len(l.Ops) == 0 || len(m.Ops) != len(l.Ops) || &m.Ops[0] != &l.Ops[0] {
		return false
	}
	return m.KeptWhole == l.KeptWhole && m.JoinsPrevious == l.JoinsPrevious
}

// FLOPs returns the FLOPs of one pass, per sample.
func (l Layer) FLOPs(p Pass) float64 {
	return sum(l.Ops, func(op Op) float64 { return op.FLOPs(p) })
}

// Traffic returns the number of elements that one pass over a microbatch of samples moves to
// and from memory.
func (l Layer) Traffic(p Pass, samples int64) int64 {
	return sum(l.Ops, func(op Op) int64 { return op.Traffic(p, samples) })
}

// Parameters is the number of parameters that the layer owns.
func (l Layer) Parameters() int64 {
	return elementsOf(l.Params) + elementsOf(l.Frozen)
}

// NormParameters is the number of parameters of norms, whose gradients I makes.
func (l Layer) NormParameters() int64 {
	var n int64
	for _, t := range l.Params {
		if t.Norm {
			n += t.Shape.Elements()
		}
	}
	return n
}

// Network is a chain of layers: the Output of each is the Input of the next.
type Network struct {
	Name            string
	Layers          []Layer
	TokensPerSample int // the sequence length of a language model, 1 for an image
	// Group divides the layers: shapes, operations and buffers are those of one of its
	// devices.
	Group   group.Group
	Routing group.Routing // how mixtures choose experts
}

// Parameters is the number of parameters, tied ones counted once.
func (n Network) Parameters() int64 {
	return sum(n.Layers, Layer.Parameters)
}

// ActiveParameters is the number of parameters that a token goes through: in a layer with
// experts, those of the active ones.
func (n Network) ActiveParameters() int64 {
	active := n.Parameters()
	for _, l := range n.Layers {
		if l.Experts == 0 {
			continue
		}
		isDense := func(t Tensor) bool { return !t.Expert }
		experts := elementsOf(slices.DeleteFunc(slices.Concat(l.Params, l.Frozen), isDense))
		active -= experts / int64(l.Experts) * int64(l.Experts-l.Active)
	}
	return active
}

// ParameterTensors lists the owned tensors in the order of the layers.
func (n Network) ParameterTensors() []Tensor {
	var all []Tensor
	for _, l := range n.Layers {
		all = append(all, l.Params...)
	}
	return all
}

// FLOPs returns the FLOPs of one pass, per sample. Every token counts for all experts that it
// chooses, even where their capacity would drop it.
func (n Network) FLOPs(p Pass) float64 {
	return n.weighted(p, func(Layer, Op) float64 { return 1 })
}

// weighted sums the FLOPs of one pass, each operation's multiplied by a number.
func (n Network) weighted(p Pass, times func(Layer, Op) float64) float64 {
	return sum(n.Layers, func(l Layer) float64 {
		return sum(l.Ops, func(o Op) float64 {
			if n.Routing.Capacity != 0 && o.Experts > 0 {
				o.Rows = int64(n.TokensPerSample * n.Routing.PerToken)
			}
			return o.FLOPs(p) * times(l, o)
		})
	})
}

// Timed returns the network with the operations of another, in which samples have another number of tokens: times and
// FLOPs are those of the other, and memory stays.
func (n Network) Timed(by Network) Network {
	n.Layers = slices.Clone(n.Layers)
	for i := range n.Layers {
		n.Layers[i].Ops = by.Layers[i].Ops
	}
	return n
}

// sum adds up a number of every element.
func sum[T any, N int64 | float64](list []T, number func(T) N) (n N) {
	for _, x := range list {
		n += number(x)
	}
	return n
}

// Same returns, for every layer, the index of the first layer that shares its operations and
// buffers, which may be the layer itself.
func Same(layers []Layer) []int {
	first := make([]int, len(layers))
	seen := map[sharedKey]int{}
	for i, l := range layers {
		first[i] = i
		if len(l.Ops) == 0 {
			continue
		}
		key := sharedKey{&l.Ops[0], l.KeptWhole, l.JoinsPrevious}
		if k, ok := seen[key]; ok && layers[k].Shares(l) {
			first[i] = k
		} else {
			seen[key] = i
		}
	}
	return first
}

// sharedKey identifies layers that share operations and buffers.
type sharedKey struct {
	ops           *Op
	whole, joined bool
}
