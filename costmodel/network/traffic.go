package network

// Numbers is the format of the numbers that an operation between products reads and writes,
// where activations have 16 bits.
type Numbers uint8

const (
	Narrow Numbers = iota // 16 bits
	Mixed                 // 16 bits and fp32
	FP32                  // fp32 only
)

// String names the format.
func (n Numbers) String() string {
	return nameOf("Numbers", uint8(n), "16 bits", "16 bits, fp32", "fp32")
}

// Bytes returns the bytes that a pass over a microbatch moves, where an element takes element
// bytes.
func (o Op) Bytes(p Pass, samples, element int64) int64 {
	n := o.Traffic(p, samples) * element
	if n > 0 {
		n += samples * o.Mask[p]
	}
	return n
}

// ReadWritten divides Bytes into those that a pass reads and those that it writes.
func (o Op) ReadWritten(p Pass, samples, element int64) (read, written int64) {
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
		if o.Class == Lookup && p == WeightGradient { // zeros for the whole table
			written += o.Rows * o.Cols * element
		}
		if p == Forward {
			written += samples * o.Mask[p]
		}
	}
	return all - written, written
}

// Written returns the number of elements that a product writes in a pass over a microbatch.
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

// Aligned reports whether the rows of a product's matrices are multiples of 16 bytes, where a
// number has 16 bits.
func (o Op) Aligned() bool { return o.Inner%8 == 0 && o.Cols%8 == 0 }

// Traffic is the bytes that a pass reads and writes for each element of an operation's result:
// 2 for a number of 16 bits, 4 for one in fp32.
type Traffic struct{ Read, Written int64 }

// Moved returns the number of elements of 16 bits that are read and written for n results.
func (t Traffic) Moved(n int64) int64 { return (t.Read + t.Written) * n / 2 }

// Writes returns the number of elements of 16 bits that are written for n results.
func (t Traffic) Writes(n int64) int64 { return t.Written * n / 2 }

// NewElementwise returns an operation with n results, given the traffic of F and I for each.
func NewElementwise(name string, n int64, forward, input Traffic) Op {
	return Op{
		Name: name, Class: Elementwise, Elements: n,
		Moved:  [3]int64{forward.Moved(n), input.Moved(n), 0},
		Writes: [3]int64{forward.Writes(n), input.Writes(n), 0},
	}
}
