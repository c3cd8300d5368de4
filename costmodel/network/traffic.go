package network

// Numbers says what numbers an operation between products reads and writes, where activations
// have 16 bits.
type Numbers uint8

// What the numbers are: an activation's, those and fp32, or fp32 alone.
const (
	Narrow Numbers = iota
	Mixed
	FP32
)

// String names them.
func (n Numbers) String() string {
	return nameOf("Numbers", uint8(n), "16 bits", "16 bits, fp32", "fp32")
}

// Bytes returns what a pass over a microbatch moves, where an element takes so many.
func (o Op) Bytes(p Pass, samples, element int64) int64 {
	n := o.Traffic(p, samples) * element
	if n > 0 {
		n += samples * o.Mask[p]
	}
	return n
}

// BytesApart returns what of Bytes a pass reads and what it writes.
func (o Op) BytesApart(p Pass, samples, element int64) (read, written int64) {
	all := o.Bytes(p, samples, element)
	switch {
	case all == 0:
		return 0, 0
	case o.Class == Product:
		written = o.Written(p, samples)
		if o.Bias && p == WeightGradient {
			written += o.Cols
		}
		written *= element
	default:
		written = samples * o.Writes[p] * element
		if o.Class == Lookup && p == WeightGradient { // the zeros
			written += o.Rows * o.Cols * element
		}
		if p == Forward {
			written += samples * o.Mask[p]
		}
	}
	return all - written, written
}

// Written is the number of elements of the results of a product over a microbatch.
func (o Op) Written(p Pass, samples int64) int64 {
	switch {
	case p == Forward:
		return samples * o.out()
	case p == WeightGradient:
		return o.products(p) * o.right(samples)
	case o.Weight:
		return o.products(p) * samples * o.left()
	}
	return samples*o.left() + o.right(samples)
}

// Aligned tells whether the rows of a product's matrices are multiples of 16 bytes, in 16 bits.
func (o Op) Aligned() bool { return o.Inner%8 == 0 && o.Cols%8 == 0 }

// Traffic is what a pass reads and writes in numbers of 16 bits: bytes for each element of
// an operation's result. A number in fp32 is four.
type Traffic struct{ Read, Written int64 }

// Moved counts the elements of 16 bits that are read and written for n of the result.
func (t Traffic) Moved(n int64) int64 { return (t.Read + t.Written) * n / 2 }

// Writes counts those that are written.
func (t Traffic) Writes(n int64) int64 { return t.Written * n / 2 }

// NewElementwise makes n elements; F and I move so much for each.
func NewElementwise(name string, n int64, forward, input Traffic) Op {
	return Op{
		Name: name, Class: Elementwise, Elements: n,
		Moved: [3]int64{forward.Moved(n), input.Moved(n), 0}, Writes: [3]int64{forward.Writes(n), input.Writes(n), 0},
	}
}
