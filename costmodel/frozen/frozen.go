// Package frozen says in which formats weights are held that are not trained, and how many bytes
// they take. Weights in 4 bits of QLoRA are made 16-bit ones for every product; products multiply others as
// they are.
package frozen

// Format is how the values of a frozen tensor are held.
type Format uint8

// The formats.
const (
	AsTrained     Format = iota // in the precision of an activation
	FP32                        // in fp32
	NF4                         // 4 bits, with a scale in fp32 for every 64
	NF4Double                   // 4 bits, with scales that have 8 bits themselves
	NF4Cast                     // as NF4, and values are made fp16 before they are bf16
	NF4DoubleCast               // as NF4Double, and values are made fp16 before they are bf16
	FP8                         // 8 bits, with one scale
	FP8Turned                   // the same, held along rows: every backward makes the copy along columns
	MXFP8                       // 8 bits, with a scale for every 32, along rows and along columns
	NVFP4                       // 4 bits, with a scale for every 16, along rows and along columns
	number                      // of formats
)

// The blocks of NF4 and of its scales (Dettmers et al. 2023, "QLoRA", section 3).
const (
	nf4Block   = 64
	scaleBlock = 256
)

// Packed reports whether a product has to make 16-bit weights of the values first.
func (f Format) Packed() bool { return f == NF4 || f == NF4Double || f.casts() }

// casts reports whether a second kernel makes bf16 values of the fp16 ones.
func (f Format) casts() bool { return f == NF4Cast || f == NF4DoubleCast }

// Made returns the bytes of what a product makes of n values, which are freed after it.
func (f Format) Made(n int64) int64 {
	switch {
	case f.casts(): // both are there while the second kernel runs
		return 2 * 2 * n
	case f.Packed():
		return 2 * n
	case f == FP8Turned:
		return n
	}
	return 0
}

// scales returns the number of scales of n packed values.
func scales(n int64) int64 { return (n + nf4Block - 1) / nf4Block }

// Bytes returns the bytes of n values, where one in the precision of an activation takes element
// bytes.
func (f Format) Bytes(n, element int64) int64 {
	switch f {
	case FP32:
		return 4 * n
	case NF4, NF4Cast:
		return (n+1)/2 + 4*scales(n)
	case NF4Double, NF4DoubleCast:
		return (n+1)/2 + scales(n) + 4*((scales(n)+scaleBlock-1)/scaleBlock)
	case FP8, FP8Turned:
		return n
	case MXFP8:
		return 2 * (n + (n+31)/32)
	case NVFP4:
		return 2 * ((n+1)/2 + (n+15)/16)
	}
	return n * element
}

// Unpacking returns the bytes that a forward or a backward moves to make 16-bit values of n packed ones, in how many
// kernels: the packed values are read and the others written. With scales of 8 bits a first kernel writes
// these in fp32, and the second reads them. A backward that turns values in 8 bits reads and writes them.
func (f Format) Unpacking(n int64, backward bool) (bytes int64, kernels int) {
	switch f {
	case FP8Turned:
		if backward {
			return 2 * n, 1
		}
	case NF4:
		return f.Bytes(n, 2) + 2*n, 1
	case NF4Double:
		return f.Bytes(n, 2) + 2*4*scales(n) + 2*n, 2
	case NF4Cast, NF4DoubleCast:
		bytes, kernels = (f - NF4Cast + NF4).Unpacking(n, backward)
		return bytes + 2*2*n, kernels + 1
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
