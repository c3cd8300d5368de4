package arch

import "strconv"

// A mixture of experts in the place of a Llama block's MLP (Mixtral, Jiang et
// al. 2024): a router picks k of E gated MLPs for every token and weights their
// results. Tokens are sorted by expert, none is dropped, and all experts are
// taken to have equally many, so that their products work on s·k rows in all.
// Shared experts are one MLP of their widths together, which every token goes through
// (DeepSeek-V2, Liu et al. 2024, section 2.2).
// Every rank has all experts: expert parallelism is not modelled. A
// tensor-parallel group divides each expert as it would one MLP, and each of its
// devices routes all tokens.

const sharedExperts = "mlp.shared_experts."

// expertParams lists the tensors of experts, named as in Hugging Face's checkpoint of Mixtral.
func expertParams(m Model) []Tensor {
	h, f := m.Hidden, m.expertHidden()
	params := projection("block_sparse_moe.gate", h, m.Experts, m.MLPBias, false)
	if m.RouterBias {
		params = append(params, Tensor{Name: "block_sparse_moe.gate.correction", Shape: Shape{m.Experts}, Norm: true})
	}
	for e := range m.Experts {
		prefix := "block_sparse_moe.experts." + strconv.Itoa(e) + "."
		first := len(params)
		params = append(params, projection(prefix+"w1", h, f, m.MLPBias, true)...)
		params = append(params, projected(prefix+"w2", f, h, m.MLPBias)...)
		params = append(params, projection(prefix+"w3", h, f, m.MLPBias, true)...)
		for i := range params[first:] {
			params[first+i].Expert = true
		}
	}
	if m.SharedExperts > 0 {
		params = append(params, gatedParams(sharedExperts, h, m.SharedExperts*f, false)...)
	}
	return params
}

func expertOps(m Model) []Op {
	s, h, f, k := m.SequenceLength, m.Hidden, m.expertHidden(), m.ExpertsPerToken
	ops := []Op{
		m.linear("block_sparse_moe.gate", s, h, m.Experts, m.MLPBias).enters().whole(),
		elementwise("mlp.softmax", elements(s, m.Experts), 2, 3),
		elementwise("mlp.sort", elements(s*k, h), 2, 2),
		m.experts(m.linear("block_sparse_moe.experts.w1", s*k, h, f, m.MLPBias)),
		m.experts(m.linear("block_sparse_moe.experts.w3", s*k, h, f, m.MLPBias)),
		m.activation("mlp.experts.silu", s*k, f),
		m.gate("mlp.experts.gate", s*k, f),
		m.experts(m.linear("block_sparse_moe.experts.w2", s*k, f, h, m.MLPBias)),
	}
	ops[len(ops)-1].RowParallel = true
	summed := int64(k)
	if m.SharedExperts > 0 {
		ops = append(ops, sharedOps(m)...)
		summed++
	}
	// The weighted sum reads k rows per token and writes one; its I reads them
	// again, for the gradients of the weights, and that one's, and writes k.
	sum := elementwise("mlp.sum", elements(s, h), summed+1, 2*int64(k)+1)
	sum.Leaves = true
	return append(ops, sum)
}

// sharedOps makes the experts that every token goes through, whose result is summed with the
// others'.
func sharedOps(m Model) []Op {
	s, h, f := m.SequenceLength, m.Hidden, m.SharedExperts*m.expertHidden()
	ops := []Op{
		m.linear(sharedExperts+"gate_proj", s, h, f, false),
		m.linear(sharedExperts+"up_proj", s, h, f, false),
		m.activation(sharedExperts+"silu", s, f),
		m.gate(sharedExperts+"gate", s, f),
		m.linear(sharedExperts+"down_proj", s, f, h, false),
	}
	ops[len(ops)-1].RowParallel = true
	return ops
}

// experts makes a product one of all experts.
func (m Model) experts(o Op) Op {
	o.Experts = int64(m.Experts)
	return o
}

func expertBuffers(m Model) []Buffer {
	s, h, n := m.SequenceLength, m.Hidden, m.SequenceLength*m.ExpertsPerToken
	buffers := []Buffer{
		{Name: "mlp.router.probabilities", Shape: Shape{s, m.Experts}, Gathered: true},
		{Name: "mlp.router.output_gradient", Shape: Shape{s, m.Experts}, Lifetime: InputToWeight},
		{Name: "mlp.experts.input", Shape: Shape{n, h}, Lifetime: ForwardToWeight, Gathered: true},
		{Name: "mlp.experts.output", Shape: Shape{n, h}, Gathered: true},
		{Name: "mlp.experts.output_gradient", Shape: Shape{n, h}, Lifetime: InputToWeight},
	}
	buffers = append(buffers, gatedBuffers("mlp.experts.", n, m.expertHidden())...)
	if m.SharedExperts == 0 {
		return buffers
	}
	buffers = append(buffers, gatedBuffers(sharedExperts, s, m.SharedExperts*m.expertHidden())...)
	return append(buffers, Buffer{Name: sharedExperts + "down_proj.output_gradient", Shape: Shape{s, h}, Lifetime: InputToWeight})
}
