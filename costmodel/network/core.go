package network

import "cmp"

// attentionProducts counts the products over the square in each pass of a fused core, first
// those over the features of queries and keys, then those over the features of values. I makes
// the scores again, and the gradients of probabilities, q, k and v.
var attentionProducts = [3][2]int64{Forward: {1, 1}, InputGradient: {3, 2}}

// attentionFLOPs counts those of a pass of a fused core over the whole square.
func (o Op) attentionFLOPs(p Pass) int64 {
	n := attentionProducts[p]
	return 2 * o.Count * o.Rows * o.Cols * (n[0]*o.Inner + n[1]*cmp.Or(o.Values, o.Inner))
}

// Covered is the share of the square that an operation computes: of fused attention what its
// tiles cover, of others all.
func (o Op) Covered() float64 {
	if o.Class != Attention {
		return 1
	}
	return float64(o.Pairs) / (float64(o.Rows) * float64(o.Cols))
}

// HeadFeatures is the mean of the features that the products of fused attention go over.
func (o Op) HeadFeatures() float64 { return float64(o.Inner+cmp.Or(o.Values, o.Inner)) / 2 }

// PaddedHeads returns a core whose heads are padded to a multiple of so many features, each
// of its products; 0 pads nothing.
func (o Op) PaddedHeads(multiple int) Op {
	if n := int64(multiple); n > 0 {
		o.Inner, o.Values = (o.Inner+n-1)/n*n, (o.Values+n-1)/n*n
	}
	return o
}

// attentionKernels counts those of fused attention, and what it passes round.
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

// PassedBeside counts the elements that a device passes on beside a block of a pass: in F
// the keys and values for the next block, which the last has no need of; in I these, and from
// the second block on the gradients of those before.
func (o Op) PassedBeside(p Pass, block int64) int64 {
	n := int64(0)
	if p != WeightGradient && block < o.Blocks-1 {
		n++
	}
	if p == InputGradient && block > 0 {
		n++
	}
	return n * o.Passed
}
