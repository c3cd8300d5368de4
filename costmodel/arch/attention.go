package arch

import "cmp"

// The core of attention, between the projections: softmax(q·kᵀ)·v for every head.

// The legal values of Model.Attention.
const (
	// AttentionUnfused writes the scores of all pairs of tokens, and reads them for
	// the softmax and again for the context.
	AttentionUnfused = "unfused"
	// AttentionFlash is one kernel that goes over tiles of the square, leaves out
	// those that the causal mask or a sliding window covers, and keeps a row's
	// logarithm of the sum of exponentials in place of its probabilities (Dao et al.
	// 2022, FlashAttention; Dao 2023, FlashAttention-2).
	AttentionFlash = "flash"
)

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

// Fused returns the model with fused attention, unless it says how its attention is
// computed, has Megatron's kernels, or is no transformer.
func (m Model) Fused() Model {
	if r, err := m.resolve(); err == nil && r.transformer() && r.Attention == "" && !r.megatron() {
		m.Attention = AttentionFlash
	}
	return m
}

// attentionTile counts the tokens along a side of a tile, which a fused core leaves out or
// computes whole (Dao 2023, section 3.3, the largest of its choices).
const attentionTile = 128

// attention makes the core.
func attention(prefix string, m Model) []Op {
	if m.Attention == AttentionFlash {
		return m.inContext(prefix, m.fusedAttention(prefix+"flash").sharded().of(FusedCore))
	}
	ops := m.square(prefix)
	for i := range ops {
		ops[i].Modules, ops[i].Sharded = Square, true
	}
	return ops
}

// core names the operation of attention that has what is not of a product.
func (m Model) core() string {
	if m.Attention == AttentionFlash {
		return "flash"
	}
	return "softmax"
}

// square makes the core over the whole square, in Heads products; scale and mask are
// part of the softmax kernel.
func (m Model) square(prefix string) []Op {
	a, s := int64(m.Heads), int64(m.SequenceLength)
	ops := []Op{{Name: prefix + "scores", Class: Product, Count: a, Rows: s, Inner: int64(m.HeadDim), Cols: s}}
	ops = append(ops, m.softmax(prefix+"softmax")...)
	ops = append(ops, m.dropout(prefix+"attn_dropout", m.Heads, m.SequenceLength, m.SequenceLength)...)
	ops = append(ops, Op{Name: prefix + "context", Class: Product, Count: a, Rows: s, Inner: s, Cols: int64(m.valueDim())})
	return append(ops, m.apart(prefix+"contiguous", m.Heads*m.valueDim(), traffic{2, 2}, traffic{2, 2})...)
}

// fusedAttention makes the core in one kernel, which draws its dropout anew in I. F reads
// q, k and v and writes the context and a statistic of every row in fp32. I reads all of
// these and the context's gradient, and writes three gradients, that of q added up in fp32
// first: zeros, a sum that is read and written, and its conversion.
func (m Model) fusedAttention(name string) Op {
	a, s, v := int64(m.Heads), int64(m.SequenceLength), m.valueDim()
	q, context, rows := elements(m.SequenceLength, m.Heads*m.HeadDim), elements(m.SequenceLength, m.Heads*v), 2*a*s
	kv := elements(m.SequenceLength, m.KVHeads*(m.HeadDim+v))
	op := Op{
		Name: name, Class: Attention, Count: a, Rows: s, Inner: int64(m.HeadDim), Cols: s, Pairs: m.pairs(),
		Elements: context, Numbers: Mixed, Moved: [3]int64{Forward: q + context + kv + rows, InputGradient: q + 2*context + kv + rows + 9*q + kv},
		Writes: [3]int64{Forward: context + rows, InputGradient: 5*q + kv},
	}
	if v != m.HeadDim {
		op.Values = int64(v)
	}
	return op
}

// pairs counts the pairs of tokens in the tiles that hold one of which the second is not
// after the first, nor before its window, or in another chunk.
func (m Model) pairs() int64 {
	parts := int64(m.parts.context())
	s, w := parts*int64(m.SequenceLength), int64(m.Window)
	n := min(s*s, s*(s+attentionTile)/2)
	switch {
	case w == 0 || w >= s:
	case m.Chunked:
		n = min(n, s/w*w*(w+attentionTile)/2+s%w*(s%w+attentionTile)/2)
	default:
		n = min(n, w*(w+attentionTile)/2+(s-w)*(w+attentionTile))
	}
	return n / parts
}

// attentionBuffers lists the buffers of the core, and the context, which is the input
// of the output projection.
func attentionBuffers(prefix string, m Model) []Buffer {
	s, q, k, v := m.SequenceLength, m.Heads*m.HeadDim, m.KVHeads*m.HeadDim, m.KVHeads*m.valueDim()
	buffers := []Buffer{
		{Name: prefix + "q", Shape: Shape{s, q}, Sharded: true},
		{Name: prefix + "k", Shape: Shape{s, k}, Sharded: true},
		{Name: prefix + "v", Shape: Shape{s, v}, Sharded: true},
	}
	if m.latent() {
		madeWithin(UpProjection, buffers)
	}
	if m.Attention == AttentionFlash {
		buffers = append(buffers, Buffer{Name: prefix + "flash.statistic", Shape: Shape{s, m.Heads}, ElementBytes: 4, Modules: FusedCore, Sharded: true})
	} else {
		buffers = append(buffers, Buffer{Name: prefix + "softmax.output", Shape: Shape{m.Heads, s, s}, Modules: Square, Sharded: true})
		buffers = append(buffers, m.attentionDropout(prefix)...)
	}
	return append(buffers, Buffer{Name: prefix + "context", Shape: Shape{s, m.Heads * m.valueDim()}, Lifetime: ForwardToWeight, Sharded: true})
}

// attentionDropout keeps its output as well, for the gradient of v.
func (m Model) attentionDropout(prefix string) []Buffer {
	name := prefix + "attn_dropout"
	buffers := m.dropoutMask(name, m.Heads, m.SequenceLength, m.SequenceLength)
	for _, mask := range buffers {
		buffers = append(buffers, Buffer{Name: name + ".output", Shape: mask.Shape})
	}
	for i := range buffers {
		buffers[i].Modules, buffers[i].Sharded = Square, true
	}
	return buffers
}
