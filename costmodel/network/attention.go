package network

import "cmp"

// attentionProducts is the number of products over the square in each pass of fused attention:
// first those over the features of queries and keys, then those over the features of values.
// I computes the scores again, and the gradients of probabilities, q, k and v.
var attentionProducts = [3][2]int64{Forward: {1, 1}, InputGradient: {3, 2}}

// attentionFLOPs returns the FLOPs of a pass of fused attention over the whole square.
func (o Op) attentionFLOPs(p Pass) float64 {
	n := attentionProducts[p]
	return 2 * float64(o.Count*o.Rows) * float64(o.Cols*(n[0]*o.Inner+n[1]*cmp.Or(o.Values, o.Inner)))
}

// Covered is the share of its FLOPs that an operation really computes: fused attention computes
// only the tiles of the square that hold a Pair, other operations compute everything.
func (o Op) Covered() float64 {
	if o.Class != Attention {
		return 1
	}
	return float64(o.Pairs) / (float64(o.Rows) * float64(o.Cols))
}

// HeadFeatures is the mean number of features over which fused attention multiplies.
func (o Op) HeadFeatures() float64 {
	return float64(o.Inner+cmp.Or(o.Values, o.Inner)) / 2
}

// PaddedHeads returns fused attention whose heads are padded to a multiple of a number of
// features; 0 pads nothing.
func (o Op) PaddedHeads(multiple int) Op {
	if n := int64(multiple); n > 0 {
		o.Inner, o.Values = (o.Inner+n-1)/n*n, (o.Values+n-1)/n*n
	}
	return o
}

// attentionKernels returns the number of kernels of a pass of fused attention, with those that
// send keys and values on.
func (o Op) attentionKernels(p Pass) int {
	n := max(1, o.Blocks)
	if p == InputGradient {
		n *= 3
	}
	if o.Passed > 0 {
		n += o.Blocks
		if p == Forward {
			n--
		}
	}
	return int(n)
}

// PassedOn returns the number of elements that a device sends to the next one while a block of
// a pass is computed: in F the keys and values for the next block, except during the last
// block; in I these as well, and from the second block on the gradients of the ones before.
func (o Op) PassedOn(p Pass, block int64) int64 {
	n := int64(0)
	if p != WeightGradient && block < o.Blocks-1 {
		n++
	}
	if p == InputGradient && block > 0 {
		n++
	}
	return n * o.Passed
}
