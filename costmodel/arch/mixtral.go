package arch

import (
	"fmt"
	"math"
)

// A mixture of experts in the place of a Llama block's MLP (Mixtral, Jiang et
// al. 2024): a router picks k of E gated MLPs for every token and weights their
// results. Tokens are sorted by expert, none is dropped unless there is a capacity, and
// all experts are taken to have equally many, so that their products work on s·k rows in
// all. A tensor-parallel group divides each expert as it would one MLP, and each of its
// devices routes all tokens, unless experts are on other devices (see experts.go).

// expertParams lists the tensors of experts, named as in Hugging Face's checkpoint.
func expertParams(m Model) []Tensor {
	h, f := m.Hidden, m.FFNHidden
	params := []Tensor{{Name: "block_sparse_moe.gate.weight", Shape: Shape{m.Experts, h}}}
	for e := range m.Experts {
		prefix := fmt.Sprintf("block_sparse_moe.experts.%d.", e)
		params = append(params,
			Tensor{Name: prefix + "w1.weight", Shape: Shape{f, h}, Sharded: true, Expert: true},
			Tensor{Name: prefix + "w2.weight", Shape: Shape{h, f}, Sharded: true, Axis: 1, Expert: true},
			Tensor{Name: prefix + "w3.weight", Shape: Shape{f, h}, Sharded: true, Expert: true},
		)
	}
	return params
}

func expertOps(m Model) []Op {
	s, h, f, k, n := m.SequenceLength, m.Hidden, m.FFNHidden, m.ExpertsPerToken, m.routedRows()
	router := m.linear("block_sparse_moe.gate", s, h, m.Experts, false).enters()
	router.Sharded, router.Wide = false, true
	ops := []Op{
		router,
		elementwise("mlp.softmax", elements(s, m.Experts), 2, 3),
		elementwise("mlp.sort", elements(n, h), 2, 2),
		m.experts(m.linear("block_sparse_moe.experts.w1", n, h, f, false)),
		m.experts(m.linear("block_sparse_moe.experts.w3", n, h, f, false)),
		m.activation("mlp.experts.silu", n, f),
		m.gate("mlp.experts.gate", n, f),
		m.experts(m.linear("block_sparse_moe.experts.w2", n, f, h, false)),
	}
	ops[len(ops)-1].RowParallel = true
	// The weighted sum reads k rows per token and writes one; its I reads them
	// again, for the gradients of the weights, and that one's, and writes k.
	sum := elementwise("mlp.sum", elements(s, h), int64(k)+1, 2*int64(k)+1)
	sum.Leaves = true
	ops = append(ops, sum)
	for i := range ops {
		ops[i].Routed = ByToken
		if i > 2 && i < len(ops)-1 {
			ops[i].Routed = ByExpert
		}
	}
	return ops
}

// routedRows counts the rows of all experts: of every token one for each that it goes
// through, or as many as they have a capacity for.
func (m Model) routedRows() int {
	n := m.SequenceLength * m.ExpertsPerToken
	if m.Capacity > 0 {
		n = int(math.Ceil(float64(n) * m.Capacity))
	}
	return n
}

// experts makes a product one of all experts.
func (m Model) experts(o Op) Op {
	o.Experts = int64(m.Experts)
	return o
}

func expertBuffers(m Model) []Buffer {
	s, h, n := m.SequenceLength, m.Hidden, m.routedRows()
	inside := gatedBuffers("mlp.experts.", n, m.FFNHidden)
	for i := range inside {
		inside[i].Routed = ByExpert
	}
	return append([]Buffer{
		{Name: "mlp.router.probabilities", Shape: Shape{s, m.Experts}, Gathered: true, Routed: ByToken},
		{Name: "mlp.router.output_gradient", Shape: Shape{s, m.Experts}, Lifetime: InputToWeight, Routed: ByToken},
		{Name: "mlp.experts.input", Shape: Shape{n, h}, Lifetime: ForwardToWeight, Gathered: true, Routed: ByExpert},
		{Name: "mlp.experts.output", Shape: Shape{n, h}, Gathered: true, Routed: ByToken},
		{Name: "mlp.experts.output_gradient", Shape: Shape{n, h}, Lifetime: InputToWeight, Routed: ByExpert},
	}, inside...)
}
