package network

// Lifetime says which pass allocates a buffer and which one frees it.
type Lifetime uint8

const (
	ForwardToInput  Lifetime = iota // made by F, last read by I
	ForwardToWeight                 // made by F, last read by W (I may read it too)
	InputToWeight                   // an output gradient that exists in I, read by W
)

// String is the letters of the two passes, e.g. "F→W".
func (lt Lifetime) String() string {
	return nameOf("Lifetime", uint8(lt), "F→I", "F→W", "I→W")
}

// Buffer is a tensor that a layer holds between two of its passes. The list is that of an eager
// framework (PyTorch) in which an activation function, a norm or a softmax is one kernel.
// Means and deviations of norms, scalars, and masks that are equal for all samples are too
// small to list.
type Buffer struct {
	Name     string
	Shape    Dims // of one sample
	Lifetime Lifetime
	// ElementBytes is 0 for activations in the precision of training. Otherwise it is fixed:
	// 4 for token ids, 8 for pooling indices, 4 for the loss in fp32, 1 for dropout masks.
	ElementBytes int
	// Modules are the parts of a block that make it. When one of them is repeated, the buffer
	// is not kept but made again.
	Modules Module
	// Sharded: divided among the devices of a tensor-parallel group. Other buffers are divided
	// only by sequence parallelism, and Gathered ones not even by that.
	Sharded, Gathered bool
	// Local: an output gradient of an operation that every device runs for its own part of
	// the sequence.
	Local  bool
	Routed Routed // which rows these are, in a mixture of experts
}

// Bytes returns the bytes per sample, where an activation takes elementBytes.
func (b Buffer) Bytes(elementBytes int64) int64 {
	if b.ElementBytes != 0 {
		elementBytes = int64(b.ElementBytes)
	}
	return b.Shape.Elements() * elementBytes
}

// BufferBytes adds up buffers by lifetime for a microbatch, where an activation takes
// elementBytes (see training.Options.ActivationElement).
func BufferBytes(buffers []Buffer, elementBytes, samples int64) [3]int64 {
	var sum [3]int64
	for _, b := range buffers {
		sum[b.Lifetime] += b.Bytes(elementBytes) * samples
	}
	return sum
}
