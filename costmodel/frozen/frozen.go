// Package frozen says in which formats weights are held that are not trained, and how many bytes
// they take. Weights in 4 bits are made 16-bit ones for every product.
package frozen

// Format is how the values of a frozen tensor are held.
type Format uint8

// The formats.
const (
	AsTrained Format = iota // in the precision of an activation
	FP32                    // in fp32
	NF4                     // 4 bits, with a scale in fp32 for every 64
	NF4Double               // 4 bits, with scales that have 8 bits themselves
	number                  // of formats
)

// The blocks of NF4 and of its scales (Dettmers et al. 2023, "QLoRA", section 3).
const (
	nf4Block   = 64
	scaleBlock = 256
)

// Packed reports whether a product has to make 16-bit weights of the values first.
func (f Format) Packed() bool { return f == NF4 || f == NF4Double }

// scales returns the number of scales of n packed values.
func scales(n int64) int64 { return (n + nf4Block - 1) / nf4Block }

// Bytes returns the bytes of n values, where one in the precision of an activation takes element
// bytes.
func (f Format) Bytes(n, element int64) int64 {
	switch f {
	case FP32:
		return 4 * n
	case NF4:
		return (n+1)/2 + 4*scales(n)
	case NF4Double:
		return (n+1)/2 + scales(n) + 4*((scales(n)+scaleBlock-1)/scaleBlock)
	}
	return n * element
}

// Unpacking returns the bytes that are moved to make 16-bit values of n packed ones, in how many kernels: the
// packed values are read and the others written. With scales of 8 bits a first kernel writes
// these in fp32, and the second reads them.
func (f Format) Unpacking(n int64) (bytes int64, kernels int) {
	switch f {
	case NF4:
		return f.Bytes(n, 2) + 2*n, 1
	case NF4Double:
		return f.Bytes(n, 2) + 2*4*scales(n) + 2*n, 2
	}
	return 0, 0
}

// Counts are numbers of values, by format.
type Counts [number]int64

// Bytes returns the bytes of all values.
func (c Counts) Bytes(element int64) (bytes int64) {
	for format, n := range c {
		bytes += Format(format).Bytes(n, element)
	}
	return bytes
}
