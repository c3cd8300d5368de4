// Package group describes a group of devices that shares the layers of a network, and the
// collectives that its devices run for every layer.
//
// Four kinds of parallelism divide a layer. Each has a number of devices, and they multiply:
//
//	tensor    every device has a slice of each weight matrix (Shoeybi et al. 2019)
//	sequence  uses the same devices; also divides what tensor parallelism leaves whole, along
//	          the sequence (Korthikanti et al. 2022)
//	context   every part has a piece of each sequence and all weights (Liu et al. 2023)
//	expert    every device has some of the experts of a mixture (Lepikhin et al. 2021)
//
// All devices of a group do the same work at the same time, so the rest of psim follows one
// of them, as a rank. Only plain data is here: package network divides layers by it, and
// package costmodel prices the transfers. Sizes are elements per sample.
package group

// Group is the number of devices that share every layer. The zero value is one device.
type Group struct {
	Devices int // of tensor parallelism; 0 means 1
	// Context is the number of parts into which every sequence is cut. Each part has
	// Devices. 0 means 1.
	Context int
	// Method is how the parts of a sequence attend to each other: ContextRing, which ""
	// stands for, ContextGather or ContextUlysses.
	Method string
	// Sequence turns on sequence parallelism: norms, dropout and sums are divided along the
	// sequence, and each all-reduce becomes a reduce-scatter and an all-gather.
	Sequence bool
	// Overlap runs exchanges of the backward at the same time as its products (see
	// Op.Beside in package network).
	Overlap bool
	// EachProduct gathers the input of every product by itself, and keeps it for the weight's gradient, with
	// Sequence. Otherwise products with one input share a gather, and weight gradients gather again.
	EachProduct bool
	// Scatter: every device sends only its own part of a tensor to the next rank, and the
	// receivers gather the parts (Narayanan et al. 2021, section 4.1). Otherwise each device
	// sends the whole tensor. It has no effect with Sequence.
	Scatter bool
	// Expert is the number of shares into which the experts of a layer are divided, and
	// ExpertTensor the number of devices that hold a share and divide each of its experts.
	// Where both are 0, experts are divided as the rest of the layer is.
	Expert, ExpertTensor int
	// DeepEP sends a token once to each node that has one of its experts, and from there
	// once to each device (deepseek-ai/DeepEP). Otherwise a token is sent once for every
	// expert.
	DeepEP    bool
	EightBits bool // tokens are sent to experts in 8 bits
}

// Values of Group.Method: how the parts of a sequence attend to each other.
const (
	// ContextRing passes keys and values from part to part, while each part computes
	// attention with those that it has (Liu et al. 2023, Ring Attention; Transformer Engine
	// calls it p2p).
	ContextRing = "ring"
	// ContextGather gathers all keys and values first (Llama Team 2024, section 3.3.2).
	ContextGather = "all-gather"
	// ContextUlysses exchanges parts of the sequence for whole sequences of some heads
	// (Jacobs et al. 2023; Transformer Engine calls it a2a).
	ContextUlysses = "ulysses"
)

// Parts is the number of parts in which a group sends a tensor to another group. With
// Sequence its tensors are parts already.
func (g Group) Parts() int {
	if g.Scatter && !g.Sequence {
		return g.TensorParts()
	}
	return 1
}

// TensorParts is the number of devices of tensor parallelism, at least 1.
func (g Group) TensorParts() int { return max(1, g.Devices) }

// ContextParts is the number of parts of a sequence, at least 1.
func (g Group) ContextParts() int { return max(1, g.Context) }

// All is the number of devices over all parts of a sequence.
func (g Group) All() int { return g.TensorParts() * g.ContextParts() }

// ExpertParts is the number of shares into which the experts of a layer are divided.
func (g Group) ExpertParts() int { return max(1, g.Expert) }

// ExpertTensorParts is the number of devices that divide one expert.
func (g Group) ExpertTensorParts() int {
	switch {
	case g.ExpertTensor > 0:
		return g.ExpertTensor
	case g.Expert > 1:
		return 1
	}
	return g.TensorParts()
}

// Dispatches reports whether experts are divided differently from the layers around them, so
// that tokens have to be sent to them.
func (g Group) Dispatches() bool {
	return g.ExpertParts() > 1 || g.ExpertTensorParts() != g.TensorParts()
}

// ExpertDevices is the number of devices that hold the experts of one layer.
func (g Group) ExpertDevices() int { return g.ExpertParts() * g.ExpertTensorParts() }
