package models

import (
	"errors"
	"fmt"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/internal/setting"
)

// Sparse attention (DeepSeek-V3.2, DeepSeek-AI 2025, section 2.1): an indexer with few small heads
// scores all earlier tokens for every token, and latent attention takes those with the highest
// scores. The score of a pair is a sum over the indexer's heads, each with a weight that is made from
// the token. One kernel makes the scores of all pairs below the diagonal, another finds the highest.
//
// The indexer is trained as in the report's second stage. Its inputs are detached, so that no gradient
// goes back through it; its own gradients are those of a divergence from the probabilities of
// attention, over the chosen tokens only. These probabilities are made in the backward of attention in
// any case. A tensor-parallel group does not divide it (Megatron-LM,
// transformer/experimental_attention_variant/dsa.py).
//
// A kernel of sparse attention reads other tokens for every query. So that all heads read the same, it
// multiplies with the small vectors and not with keys and values of every head (section 2.1.2): the
// projection out of them moves to queries and results, which takes as many FLOPs. A sequence of no more
// tokens than are chosen has ordinary attention.

const indexer = "self_attn.indexer."

// sparse reports whether attention takes the tokens that an indexer chooses.
func (m Model) sparse() bool { return m.IndexTopK > 0 }

// indexes reports whether a block has an indexer of its own.
func (m Model) indexes() bool { return m.sparse() && m.IndexHeads > 0 }

// absorbed reports whether attention multiplies with the small vectors.
func (m Model) absorbed() bool {
	return m.sparse() && m.Attention == AttentionFlash && m.SequenceLength > m.IndexTopK
}

// withIndexer returns the model with the parts of its i-th block: some blocks take the choice of the
// block before.
func (m Model) withIndexer(i int) Model {
	if m.IndexEvery > 0 && i >= m.IndexFirst && (i-m.IndexFirst+1)%m.IndexEvery != 0 {
		m.IndexHeads = 0
	}
	return m
}

// chosenPairs counts the pairs of a token and those that it attends to.
func (m Model) chosenPairs() int64 {
	s, k := int64(m.SequenceLength), int64(min(m.IndexTopK, m.SequenceLength))
	return k*(k+1)/2 + (s-k)*k
}

// indexerParams lists the tensors of the indexer.
func indexerParams(m Model) []network.Tensor {
	if !m.indexes() {
		return nil
	}
	params := wholeProjection(indexer+"wq_b", m.QLoraRank, m.IndexHeads*m.IndexHeadDim, false)
	params = append(params, wholeProjection(indexer+"wk", m.Hidden, m.IndexHeadDim, false)...)
	params = append(params, layerNormParams(indexer+"k_norm", m.IndexHeadDim)...)
	return append(params, wholeProjection(indexer+"weights_proj", m.Hidden, m.IndexHeads, false)...)
}

// indexerOps makes the indexer. Scores are in fp32, and an index has 4 bytes.
func indexerOps(m Model) []network.Op {
	if !m.indexes() {
		return nil
	}
	s, h, n, d := m.SequenceLength, m.Hidden, m.IndexHeads, m.IndexHeadDim
	detached := func(name string, size matmul) network.Op {
		return m.linear(indexer+name, size, false).Undivided().ForwardOnly()
	}
	rows, square := elements(s, n*(d+1)+d), int64(s)*int64(s+1)/2
	scores := network.Op{
		Name: indexer + "scores", Class: network.Attention, Count: int64(n), Rows: int64(s), Inner: int64(d),
		Cols: int64(s), Values: 1, Pairs: square, Elements: square, Numbers: network.Mixed,
		Moved: [3]int64{network.Forward: rows + 2*square}, Writes: [3]int64{network.Forward: 2 * square},
	}
	gradient := scores
	gradient.Name, gradient.BackwardOnly = indexer+"divergence", true
	gradient.Pairs, gradient.Cols = m.chosenPairs(), int64(min(s, m.IndexTopK))
	// It reads the probabilities and indices of the chosen, and what the scores were made of, and adds up
	// three gradients in fp32.
	chosen := elements(s, min(s, m.IndexTopK))
	gradient.Moved = [3]int64{network.InputGradient: 4*chosen + rows + 3*2*rows}
	gradient.Writes = [3]int64{network.InputGradient: 2 * 2 * rows}
	choice := network.NewElementwise(indexer+"topk", chosen, network.Traffic{}, network.Traffic{})
	choice.Moved, choice.Writes = [3]int64{2*square + 2*chosen}, [3]int64{2 * chosen}
	wk := detached("wk", matmul{s, h, d})
	wk.Enters = true
	return []network.Op{
		detached("wq_b", matmul{s, m.QLoraRank, n * d}), wk,
		m.layerNorm(indexer+"k_norm", s, d).ForwardOnly(), detached("weights_proj", matmul{s, h, n}),
		m.between().rotary.op(indexer+"rotary", elements(s, (n+1)*m.QKRopeHeadDim)).ForwardOnly(),
		gradient, scores.ForwardOnly(), choice,
	}
}

// indexerBuffers lists what the indexer keeps; its inputs are those of other products.
func indexerBuffers(m Model) []network.Buffer {
	if !m.indexes() {
		return nil
	}
	s, n, d := m.SequenceLength, m.IndexHeads, m.IndexHeadDim
	return []network.Buffer{
		{Name: indexer + "q", Shape: network.Dims{s, n * d}, Gathered: true},
		{Name: indexer + "k", Shape: network.Dims{s, d}, Gathered: true},
		{Name: indexer + "k_norm.input", Shape: network.Dims{s, d}, Gathered: true},
		{Name: indexer + "weights", Shape: network.Dims{s, n}, Gathered: true},
		{Name: indexer + "indices", Shape: network.Dims{s, min(s, m.IndexTopK)}, ElementBytes: 4, Gathered: true},
		{Name: indexer + "output_gradient", Shape: network.Dims{s, n*(d+1) + d}, Lifetime: network.InputToWeight},
	}
}

// absorb makes fused attention that of chosen tokens, whose small vectors every query reads. I reads them
// again and adds gradients to them in fp32. A model FLOP is one of a chosen token.
func (m Model) absorb(op network.Op) network.Op {
	s, a, small, rank := m.SequenceLength, m.Heads, m.KVLoraRank+m.QKRopeHeadDim, m.KVLoraRank
	op.Inner, op.Values, op.Cols, op.Pairs = int64(small), int64(rank), int64(m.IndexTopK), m.chosenPairs()
	q, context, rows := elements(s, a*small), elements(s, a*rank), 2*elements(s, a)
	read := m.chosenPairs() * int64(small)
	op.Elements = context
	op.Moved = [3]int64{
		network.Forward: q + context + read + rows, network.InputGradient: 2*q + 2*context + 3*read + rows,
	}
	op.Writes = [3]int64{network.Forward: context + rows, network.InputGradient: q + read}
	return op
}

// absorbedBuffers lists what attention to chosen tokens keeps.
func (m Model) absorbedBuffers(prefix string) []network.Buffer {
	s, a, small := m.SequenceLength, m.Heads, m.KVLoraRank+m.QKRopeHeadDim
	return network.BuffersWithin(network.UpProjection, []network.Buffer{
		{Name: prefix + "q", Shape: network.Dims{s, a * small}, Sharded: true},
		{Name: prefix + "kv", Shape: network.Dims{s, small}, Gathered: true},
		{
			Name: prefix + "latent_context", Shape: network.Dims{s, a * m.KVLoraRank},
			Lifetime: network.ForwardToWeight, Sharded: true,
		},
	})
}

// checkSparse requires all keys of an indexer, and what it chooses for.
func (m Model) checkSparse() error {
	for s, value := range setting.Given(m) {
		switch s.Key {
		case "index_heads", "index_head_dim", "index_every", "index_first":
			if !m.sparse() {
				return fmt.Errorf("%s = %v: has no meaning without index_topk", s.Key, value)
			}
		}
	}
	switch {
	case !m.sparse():
		return nil
	case m.QLoraRank == 0:
		return fmt.Errorf("index_topk = %d: needs latent attention with q_lora_rank, from which the indexer makes "+
			"queries", m.IndexTopK)
	case m.IndexHeads == 0 || m.IndexHeadDim == 0:
		return fmt.Errorf("index_topk = %d: needs index_heads and index_head_dim", m.IndexTopK)
	case m.IndexFirst > 0 && m.IndexEvery == 0:
		return fmt.Errorf("index_first = %d: has no meaning without index_every", m.IndexFirst)
	case m.IndexEvery > 1 && m.IndexFirst == 0:
		return fmt.Errorf("index_every = %d: needs index_first, the blocks before which there is no choice to take",
			m.IndexEvery)
	case m.Window > 0:
		return fmt.Errorf("window = %d: has no meaning with index_topk; remove one of the two", m.Window)
	}
	return nil
}

// checkSparseGroup refuses sequences in parts.
func (m Model) checkSparseGroup(g group.Group) error {
	if m.sparse() && g.ContextParts() > 1 {
		return errors.New("index_topk: psim does not model the choice of an indexer over sequences in parts; " +
			"set parallel.context = 1")
	}
	return nil
}

// sparseSettings describes the keys of sparse attention.
func sparseSettings() []setting.Setting {
	size, layers := setting.Between(0, maxSize), setting.Between(0, MaxLayers)
	with := llamas()
	return []setting.Setting{
		{
			Key: "index_topk", Example: "2048", Range: size, With: with, Unset: "attention takes all",
			Text: "sparse attention: tokens that an indexer chooses for every token (DeepSeek-V3.2)",
		},
		{
			Key: "index_heads", Example: "64", Range: size, With: with, Unset: "needed with index_topk",
			Text: "heads of the indexer",
		},
		{
			Key: "index_head_dim", Example: "128", Range: size, With: with, Unset: "needed with index_topk",
			Text: "features of its heads",
		},
		{
			Key: "index_every", Example: "4", Range: layers, With: with, Unset: "1",
			Text: "n: after the first blocks only every n-th has an indexer, and the others take its choice (GLM-5.2)",
		},
		{
			Key: "index_first", Example: "3", Range: layers, With: with, Unset: "none",
			Text: "first blocks that all have an indexer",
		},
	}
}
