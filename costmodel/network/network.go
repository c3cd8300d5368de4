// Package network says what a network is: its layers in the order in which they
// run, the tensors they own, the FLOPs of each pass and the buffers kept from
// one pass to another. It knows no times, devices or schedules.
//
// Numbers are per sample unless a comment says otherwise. A sample is one
// sequence of a language model or one image. FLOPs count matrix products
// alone, two per multiply-add, and attention over the whole s×s square, as
// published totals do. Dropout is off unless the model says otherwise. In a
// network that a tensor-parallel group divides (see [Group]), all numbers are
// those of one of its devices.
//
// The backward pass comes in two parts: InputGradient (I) makes the gradient
// that goes to the layer before, WeightGradient (W) the gradients of weight
// matrices, embedding tables and linear biases. Gains and biases of norms are
// so small that their gradients are made within I.
package network

import (
	"psim/costmodel/group"
)

// Dims is the shape of a tensor. For activations it is that of one sample,
// without the batch dimension; images are channels × height × width.
type Dims []int

// Elements is the product of the dimensions; 1 for the empty shape.
func (s Dims) Elements() int64 {
	n := int64(1)
	for _, d := range s {
		n *= int64(d)
	}
	return n
}

// Tensor is a parameter tensor, named and shaped as in the PyTorch model it is
// known from: GPT-2's weights are [in, out], those of nn.Linear [out, in].
type Tensor struct {
	Name    string
	Shape   Dims
	Sharded bool // divided among the devices of a Megatron tensor-parallel group
	Axis    int  // the dimension that is divided
	Norm    bool // a gain or bias of a norm, whose gradient I makes
	Expert  bool // of one of the layer's Experts
	// Deviation is that of the normal distribution that the first values of a
	// weight are drawn from; 0 stands for √(2/inputs) (He et al. 2015). Gains start
	// at 1 and biases at 0.
	Deviation float64
}

// Layer is the smallest part of a network that a stage can hold.
type Layer struct {
	Name  string
	Kind  LayerKind
	Heads int // attention heads of a KindGPTBlock
	// Dropout is the rate of every dropout in a KindEmbedding or KindGPTBlock.
	Dropout float64
	Params  []Tensor // owned
	Tied    []Tensor // used here, owned by another layer: a copy when that one is on another rank
	Input   Dims     // elements of one sample, from the layer before
	Output  Dims     // elements of one sample, to the layer after; the last layer's logits
	Ops     []Op     // in forward order; the last layer's end with the loss
	Experts int      // MLPs that a token may go through; 0 where there is no choice
	Active  int      // of them, those that it goes through
	// Buffers are what this layer keeps for its backward passes. A tensor that
	// two layers need is listed once, by the later one.
	Buffers []Buffer
	// KeepsOutput: this layer's I needs Output, which the next layer lists as
	// its own buffer (a final ReLU). A stage that ends here keeps it as well.
	KeepsOutput bool
	// KeepsGradient: W needs the gradient of Output itself, which is listed as a
	// buffer. A stage that ends here does not free what it has received.
	KeepsGradient bool
	// Repeatable: full recomputation keeps only Input and runs F again.
	Repeatable bool
	// Whole: full recomputation leaves it as it is; Joined: it repeats it with the layer
	// before, of which alone it keeps the input (see Training.Units).
	Whole, Joined bool
}

// LayerKind says how the operations of a layer are put together. With Ops, Params
// and Input it is what an executor needs to know.
type LayerKind uint8

const (
	KindUnknown   LayerKind = iota // not described well enough to be executed: llama
	KindChain                      // each of Ops takes the result of the one before; without Ops the input is passed on, in the shape of Output
	KindEmbedding                  // the sum of rows of two tables, by token and by position
	KindGPTBlock                   // x + attention(norm(x)), then x + MLP(norm(x))
)

// String names the kind in lower case.
func (k LayerKind) String() string {
	return nameOf("Kind", uint8(k), "unknown", "chain", "embedding", "gpt block")
}

// Idle reports whether the layer hands on what it is given, such as a dropout of
// rate 0.
func (l Layer) Idle() bool { return len(l.Ops) == 0 && len(l.Input) == len(l.Output) }

// Shares reports whether two layers have their operations and buffers in common, as the
// blocks of a network have, and are repeated alike: then they compute the same.
func (l Layer) Shares(m Layer) bool {
	return len(l.Ops) > 0 && len(m.Ops) == len(l.Ops) && &m.Ops[0] == &l.Ops[0] && m.Whole == l.Whole && m.Joined == l.Joined
}

// FLOPs of one pass, per sample.
func (l Layer) FLOPs(p Pass) int64 {
	return sum(l.Ops, func(op Op) int64 { return op.FLOPs(p) })
}

// Traffic is the number of elements that one pass over a microbatch of samples
// moves to and from memory.
func (l Layer) Traffic(p Pass, samples int64) int64 {
	return sum(l.Ops, func(op Op) int64 { return op.Traffic(p, samples) })
}

// Parameters is the number of parameters the layer owns.
func (l Layer) Parameters() int64 {
	return sum(l.Params, func(t Tensor) int64 { return t.Shape.Elements() })
}

// NormParameters is the number of those whose gradients I makes.
func (l Layer) NormParameters() int64 {
	var n int64
	for _, t := range l.Params {
		if t.Norm {
			n += t.Shape.Elements()
		}
	}
	return n
}

// Network is a chain of layers: each one's Output is the next one's Input.
type Network struct {
	Name            string
	Layers          []Layer
	TokensPerSample int // the sequence length of a language model, 1 for an image
	// Group is the tensor-parallel group that the layers are divided among:
	// shapes, operations and buffers are those of one of its devices.
	Group group.Group
	// Routing is how its layers choose experts.
	Routing group.Routing
}

// Parameters is the number of parameters, tied ones counted once.
func (n Network) Parameters() int64 {
	return sum(n.Layers, Layer.Parameters)
}

// ActiveParameters is the number of those that a token goes through: of a layer with
// Experts, as many experts as are Active.
func (n Network) ActiveParameters() int64 {
	active := n.Parameters()
	for _, l := range n.Layers {
		if l.Experts == 0 {
			continue
		}
		experts := sum(l.Params, func(t Tensor) int64 {
			if !t.Expert {
				return 0
			}
			return t.Shape.Elements()
		})
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

// FLOPs of one pass, per sample, of tokens that all go through as many experts as they
// choose, whatever these have a capacity for.
func (n Network) FLOPs(p Pass) int64 {
	return sum(n.Layers, func(l Layer) int64 {
		if n.Routing.Capacity == 0 {
			return l.FLOPs(p)
		}
		return sum(l.Ops, func(o Op) int64 {
			if o.Experts > 0 {
				o.Rows = int64(n.TokensPerSample * n.Routing.PerToken)
			}
			return o.FLOPs(p)
		})
	})
}

func sum[T any](list []T, of func(T) int64) int64 {
	var n int64
	for _, x := range list {
		n += of(x)
	}
	return n
}

// Same finds for each of a network's layers the first that it shares its operations and
// buffers with, maybe itself.
func Same(layers []Layer) []int {
	first := make([]int, len(layers))
	seen := map[alike]int{}
	for i, l := range layers {
		first[i] = i
		if len(l.Ops) == 0 {
			continue
		}
		key := alike{&l.Ops[0], l.Whole, l.Joined}
		if k, ok := seen[key]; ok && layers[k].Shares(l) {
			first[i] = k
		} else {
			seen[key] = i
		}
	}
	return first
}

// alike holds what layers have in common that share.
type alike struct {
	ops           *Op
	whole, joined bool
}
