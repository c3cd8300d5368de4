// Package group says how devices share the layers of a network.
package group

// Group is how many devices share every layer, as in Megatron: tensor
// parallelism (Shoeybi et al. 2019, section 3), with or without sequence
// parallelism (Korthikanti et al. 2022, section 4.2.2), and context parallelism (see
// context.go). All of its devices do the same at the same time. The zero value is one device.
type Group struct {
	Devices int // of tensor parallelism; 0 means 1
	// Context is how many parts every sample's sequence is cut into, each of which has
	// Devices. 0 means 1.
	Context int
	Method  string // how the parts attend to each other, "" is ContextRing
	// Sequence divides what tensor parallelism leaves whole, norms, dropout and
	// sums, along the sequence; all-reduces become a reduce-scatter and an
	// all-gather.
	Sequence bool
	// Overlap lets exchanges of the backward run beside its products (see
	// Op.Beside).
	Overlap bool
	// Scatter: without Sequence every device sends its part of what goes to
	// another rank, and the receivers gather it, in place of all sending all
	// (Narayanan et al. 2021, section 4.1).
	Scatter bool
	// Expert devices share the experts of a layer, and ExpertTensor divide each of them;
	// without Expert, 0 is as the layer is divided (see experts.go).
	Expert, ExpertTensor int
	// DeepEP sends a token once to every node that has one of its experts, and there once
	// to every device (deepseek-ai/DeepEP), in place of a row for every expert.
	DeepEP    bool
	EightBits bool // tokens are dispatched in 8 bits
}

// Parts is the number of parts in which a group sends tensors to another. With
// Sequence its tensors are parts already.
func (g Group) Parts() int {
	if g.Scatter && !g.Sequence {
		return g.TensorParts()
	}
	return 1
}

// TensorParts counts the devices of tensor parallelism, at least one.
func (g Group) TensorParts() int { return max(1, g.Devices) }

// ContextParts counts the parts of a sequence, at least one.
func (g Group) ContextParts() int { return max(1, g.Context) }

// All counts the devices of all parts.
func (g Group) All() int { return g.TensorParts() * g.ContextParts() }

// ExpertParts counts the devices that share the experts of a layer.
func (g Group) ExpertParts() int { return max(1, g.Expert) }

// ExpertTensorParts counts the devices among which every expert is divided.
func (g Group) ExpertTensorParts() int {
	switch {
	case g.ExpertTensor > 0:
		return g.ExpertTensor
	case g.Expert > 1:
		return 1
	}
	return g.TensorParts()
}

// Dispatches reports whether experts are divided otherwise than the layers around them.
func (g Group) Dispatches() bool {
	return g.ExpertParts() > 1 || g.ExpertTensorParts() != g.TensorParts()
}

// ExpertDevices is the number of devices that share the experts of a layer.
func (g Group) ExpertDevices() int { return g.ExpertParts() * g.ExpertTensorParts() }
