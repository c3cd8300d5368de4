package models

import (
	"cmp"
	"errors"
	"math"

	"psim/costmodel/lengths"
	"psim/costmodel/network"
)

// The core of attention, between the projections: softmax(q·kᵀ)·v for every head.

// The legal values of Model.Attention.
const (
	// AttentionUnfused writes the scores of all pairs of tokens, and reads them for the softmax and
	// again for the context.
	AttentionUnfused = "unfused"
	// AttentionFlash is one kernel that goes over tiles of the square, leaves out tiles that the
	// causal mask or a sliding window covers, and keeps a row's logarithm of the sum of exponentials
	// instead of its probabilities (Dao et al. 2022, FlashAttention; Dao 2023, FlashAttention-2).
	AttentionFlash = "flash"
)

// Fused returns the model with fused attention. It changes nothing if the model sets its attention,
// has kernels that do not fuse it, or is not a transformer.
func (m Model) Fused() Model {
	if r, err := m.resolve(); err == nil && r.transformer() && r.Attention == "" && !r.kernels().UnfusedAttention {
		m.Attention = AttentionFlash
	}
	return m
}

// attentionTile is the number of tokens along the side of a tile, which a fused core either leaves
// out or computes whole (Dao 2023, section 3.3, the largest of its choices).
const attentionTile = 128

// attention makes the core of attention.
func attention(prefix string, m Model) []network.Op {
	if m.Attention == AttentionFlash {
		core := m.fusedAttention(prefix + "flash")
		if m.absorbed() {
			core = m.absorb(core)
		}
		return m.inContext(prefix, core.Divided().Of(network.FusedCore))
	}
	ops := m.square(prefix)
	for i := range ops {
		ops[i].Modules, ops[i].Sharded = network.Square, true
	}
	return ops
}

// core names the operation of attention that holds the sinks.
func (m Model) core() string {
	if m.Attention == AttentionFlash {
		return "flash"
	}
	return "softmax"
}

// square makes the core over the whole square, in Heads products. Scale and mask are part of the
// softmax kernel.
func (m Model) square(prefix string) []network.Op {
	a, s, keys := int64(m.Heads), int64(m.SequenceLength), m.keys()
	ops := []network.Op{
		{Name: prefix + "scores", Class: network.Product, Count: a, Rows: s, Inner: int64(m.HeadDim), Cols: keys,
			Counted: m.counted()},
	}
	ops = append(ops, m.softmax(prefix+"softmax")...)
	ops = append(ops, m.dropout(prefix+"attn_dropout", m.Heads, m.SequenceLength, int(keys))...)
	ops = append(ops, network.Op{
		Name: prefix + "context", Class: network.Product, Count: a, Rows: s, Inner: keys, Cols: int64(m.valueDim()),
		Counted: m.counted(),
	})
	return append(ops, m.separate(prefix+"contiguous", m.Heads*m.valueDim(), traffic(2, 2), traffic(2, 2))...)
}

// fusedAttention makes the core in one kernel, which draws its dropout again in I. F reads q, k and
// v and writes the context and a statistic of every row in fp32. I reads all of these and the
// context's gradient, and writes three gradients. The gradient of q is first added up in fp32: zeros
// are written, the sum is read and written, and converted.
func (m Model) fusedAttention(name string) network.Op {
	a, s, v := int64(m.Heads), int64(m.SequenceLength), m.valueDim()
	q, context, rows := elements(m.SequenceLength, m.Heads*m.HeadDim), elements(m.SequenceLength, m.Heads*v), 2*a*s
	kv := elements(m.SequenceLength, m.KVHeads*(m.HeadDim+v))
	op := network.Op{
		Name: name, Class: network.Attention, Count: a, Rows: s, Inner: int64(m.HeadDim), Cols: m.keys(),
		Pairs: m.pairs(), Counted: m.counted(),
		Elements: context, Numbers: network.Mixed,
		Moved: [3]int64{
			network.Forward: q + context + kv + rows, network.InputGradient: q + 2*context + kv + rows + 9*q + kv,
		},
		Writes: [3]int64{network.Forward: context + rows, network.InputGradient: 5*q + kv},
	}
	if v != m.HeadDim {
		op.Values = int64(v)
	}
	return op
}

// pairs counts the pairs of tokens in all tiles that are computed: those with at least one pair whose
// second token is not after the first, and is in its window or chunk; in an encoder all.
func (m Model) pairs() int64 {
	if m.batches != nil {
		return int64(m.batches.Attended(func(n int64) float64 { return float64(m.pairsWithin(n)) }))
	}
	parts := int64(m.parts.ContextParts())
	return m.pairsWithin(parts*int64(m.SequenceLength)) / parts
}

// pairsWithin counts the pairs of tokens in the tiles of a sequence of s tokens.
func (m Model) pairsWithin(s int64) int64 {
	w := int64(m.Window)
	n := min(s*s, s*(s+attentionTile)/2)
	switch {
	case m.Bidirectional:
		n = s * s
	case w == 0 || w >= s:
	case m.Chunked:
		n = min(n, s/w*w*(w+attentionTile)/2+s%w*(s%w+attentionTile)/2)
	default:
		n = min(n, w*(w+attentionTile)/2+(s-w)*(w+attentionTile))
	}
	return n
}

// counted returns the share of the square that model FLOPs count, 0 for all: of a window or chunk, as many keys for
// every token as it has.
func (m Model) counted() float64 {
	w := int64(m.Window)
	s := int64(m.parts.ContextParts() * m.SequenceLength)
	if w == 0 || w >= s {
		return 0
	}
	within := func(n int64) float64 {
		if m.Chunked {
			return float64(n/w*w*w + n%w*(n%w))
		}
		return float64(n * min(w, n))
	}
	if m.batches != nil {
		return m.batches.Attended(within) / float64(s*m.keys())
	}
	return within(s) / (float64(s) * float64(s))
}

// attentionBuffers lists the buffers of the core, and the context, which is the input of the output
// projection.
func attentionBuffers(prefix string, m Model) []network.Buffer {
	s, q, k, v := m.SequenceLength, m.Heads*m.HeadDim, m.KVHeads*m.HeadDim, m.KVHeads*m.valueDim()
	if v = m.keptValues(v); m.eagerly(eagerJoint) {
		v += q + k
	}
	buffers := []network.Buffer{
		{Name: prefix + "q", Shape: network.Dims{s, q}, Sharded: true},
		{Name: prefix + "k", Shape: network.Dims{s, k}, Sharded: true},
		{Name: prefix + "v", Shape: network.Dims{s, v}, Sharded: true},
	}
	switch {
	case m.absorbed():
		buffers = m.absorbedBuffers(prefix)
	case m.latent():
		network.BuffersWithin(network.UpProjection, buffers)
	}
	if m.Attention == AttentionFlash {
		buffers = append(buffers, network.Buffer{
			Name: prefix + "flash.statistic", Shape: network.Dims{s, m.Heads}, ElementBytes: 4,
			Modules: network.FusedCore, Sharded: true,
		})
	} else {
		buffers = append(buffers, network.Buffer{
			Name: prefix + "softmax.output", Shape: network.Dims{m.Heads, s, s}, Modules: network.Square, Sharded: true,
		})
		if m.eagerly(eagerWide) {
			buffers = append(buffers, network.Buffer{
				Name: prefix + "softmax.fp32", Shape: network.Dims{m.Heads, s, s}, ElementBytes: 4,
				Modules: network.Square, Sharded: true,
			})
		}
		buffers = append(buffers, m.attentionDropout(prefix)...)
	}
	return append(buffers, network.Buffer{
		Name: prefix + "context", Shape: network.Dims{s, m.Heads * m.valueDim()}, Lifetime: network.ForwardToWeight,
		Sharded: true,
	})
}

// attentionDropout lists the buffers of the dropout on the attention, which keeps its output as well
// as its mask, for the gradient of v.
func (m Model) attentionDropout(prefix string) []network.Buffer {
	name := prefix + "attn_dropout"
	buffers := m.dropoutMask(name, m.Heads, m.SequenceLength, m.SequenceLength)
	for _, mask := range buffers {
		buffers = append(buffers, network.Buffer{Name: name + ".output", Shape: mask.Shape})
	}
	for i := range buffers {
		buffers[i].Modules, buffers[i].Sharded = network.Square, true
	}
	return buffers
}

// Samples of different lengths change two things: how many tokens a sample that is computed has, and which pairs of
// them attend to each other.

// Batched returns the model for samples of different lengths, and the batches that are made of them: its sequence
// length is that of a sample that is computed. Sequence is set here.
func (m Model) Batched(b lengths.Batches) (Model, lengths.Batches, error) {
	r, err := m.resolve()
	switch {
	case err != nil:
		return m, b, err
	case !r.transformer():
		return m, b, errors.New("lengths: only samples of transformers (gpt, llama, mixtral) have tokens; remove it")
	case r.sparse():
		return m, b, errors.New("lengths: is not modelled with attention to tokens that an indexer chooses; remove it")
	case r.Capacity > 0 && b.Padded > 0:
		return m, b, errors.New(`batches = "padded": is not modelled with model.capacity; set batches = "packed"`)
	}
	b.Sequence = int64(r.SequenceLength)
	m = m.ofTokens(r, b.Tokens())
	m.batches = &b
	return m, b, nil
}

// UpTo returns the model for samples of at most a number of tokens.
func (m Model) UpTo(tokens int64) Model {
	if r, err := m.resolve(); err == nil && tokens < int64(r.SequenceLength) {
		m = m.ofTokens(r, tokens)
	}
	return m
}

// ofTokens returns the model, which resolves to r, for samples of a number of tokens. Its table of positions stays.
func (m Model) ofTokens(r Model, tokens int64) Model {
	if r.learned() {
		m.Positions = cmp.Or(r.Positions, r.SequenceLength)
	}
	m.SequenceLength = int(tokens)
	return m
}

// keys returns the number of keys of a token: the tokens of its sample, in the mean over tokens and rounded up. Kernels
// that write scores do so for whole packed sequences.
func (m Model) keys() int64 {
	if m.batches == nil || m.batches.Padded == 0 && m.Attention != AttentionFlash {
		return int64(m.SequenceLength)
	}
	squares := m.batches.Attended(func(n int64) float64 { return float64(n) * float64(n) })
	return int64(math.Ceil(squares/float64(m.SequenceLength) - 1e-6)) // sums of shares are not exact
}
