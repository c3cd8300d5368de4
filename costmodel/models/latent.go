package models

import (
	"psim/costmodel/network"
)

// Multi-head latent attention (DeepSeek-V2, Liu et al. 2024, section 2.1): queries are made from a
// vector of few features with a norm, and keys and values from another. The queries and keys of a
// head have features without position and features with rotary positions; the latter are the same
// vector of keys for all heads. Training expands keys and values for every head, so that the core is
// that of ordinary attention. A tensor-parallel group divides the projections from the small vectors.
// Every device makes the small vectors whole, or with sequence parallelism for its part of the
// sequence (Megatron-LM, transformer/multi_latent_attention.py).

// latent reports whether the model has latent attention.
func (m Model) latent() bool { return m.KVLoraRank > 0 }

// queryRank returns the features that queries are made from.
func (m Model) queryRank() int {
	if m.QLoraRank > 0 {
		return m.QLoraRank
	}
	return m.Hidden
}

// latentParams lists the tensors before the core, with the names of Hugging Face's checkpoint.
func latentParams(m Model) []network.Tensor {
	h, rank, rope := m.Hidden, m.KVLoraRank, m.QKRopeHeadDim
	var params []network.Tensor
	queries := "self_attn.q_proj"
	if m.QLoraRank > 0 {
		queries = "self_attn.q_b_proj"
		params = append(params, wholeProjection("self_attn.q_a_proj", h, m.QLoraRank, m.AttentionBias)...)
		params = append(params, gain("self_attn.q_a_layernorm", m.QLoraRank))
	}
	params = append(params, columnProjection(queries, m.queryRank(), m.Heads*m.HeadDim, false)...)
	params = append(params, wholeProjection("self_attn.kv_a_proj_with_mqa", h, rank+rope, m.AttentionBias)...)
	params = append(params, gain("self_attn.kv_a_layernorm", rank))
	values := m.Heads * (m.QKNopeHeadDim + m.VHeadDim)
	params = append(params, columnProjection("self_attn.kv_b_proj", rank, values, false)...)
	return append(params, indexerParams(m)...)
}

// latentOps makes the operations before the core.
func latentOps(m Model) []network.Op {
	s, h, rank, rope := m.SequenceLength, m.Hidden, m.KVLoraRank, m.QKRopeHeadDim
	var ops, norms []network.Op
	queries := "self_attn.q_proj"
	if m.QLoraRank > 0 {
		queries = "self_attn.q_b_proj"
		ops = append(ops, m.linear("self_attn.q_a_proj", matmul{s, h, m.QLoraRank}, m.AttentionBias).Undivided())
		norms = append(norms, m.norm("self_attn.q_a_layernorm", s, m.QLoraRank))
	}
	rotary := m.between().rotary
	positions := rotary.op("self_attn.k_rotary", elements(s, rope))
	expand := network.NewElementwise("self_attn.expand", elements(s, m.Heads*m.HeadDim), traffic(2, 2), traffic(2, 2))
	ops = append(ops, m.linear("self_attn.kv_a_proj_with_mqa", matmul{s, h, rank + rope}, m.AttentionBias).Undivided())
	ops = append(append(ops, norms...), m.norm("self_attn.kv_a_layernorm", s, rank))
	up := []network.Op{
		m.linear(queries, matmul{s, m.queryRank(), m.Heads * m.HeadDim}, false).Entering(),
		m.linear("self_attn.kv_b_proj", matmul{s, rank, m.Heads * (m.QKNopeHeadDim + m.VHeadDim)}, false).Entering(),
		rotary.op("self_attn.q_rotary", elements(s, m.Heads*rope)).Divided(),
		positions.Entering(),
	}
	if !m.absorbed() {
		up = append(up, expand.Divided())
	}
	return append(append(ops, network.Within(network.UpProjection, up)...), indexerOps(m)...)
}

// keptValues returns the features of what attention keeps for its values. PyTorch's own operations take them as a
// part of the result of the product that also makes the parts of keys without positions, and all of it is kept.
func (m Model) keptValues(features int) int {
	if m.latent() && !m.absorbed() && m.between().forms != nil {
		return m.Heads * (m.QKNopeHeadDim + m.VHeadDim)
	}
	return features
}

// latentBuffers lists the buffers of these operations. Both first products have the same input, and
// the gradients of their results are one tensor.
func latentBuffers(m Model) []network.Buffer {
	s, h, rank, rope := m.SequenceLength, m.Hidden, m.KVLoraRank, m.QKRopeHeadDim
	buffers := []network.Buffer{{
		Name: "self_attn.kv_a.input", Shape: network.Dims{s, h}, Lifetime: network.ForwardToWeight,
		Modules: network.Norms,
	}}
	if m.QLoraRank > 0 {
		buffers = append(buffers,
			network.Buffer{Name: "self_attn.q_a_layernorm.input", Shape: network.Dims{s, m.QLoraRank}},
			network.Buffer{
				Name: "self_attn.q_b_proj.input", Shape: network.Dims{s, m.QLoraRank},
				Lifetime: network.ForwardToWeight,
			},
		)
	}
	buffers = append(buffers, indexerBuffers(m)...)
	return append(buffers,
		network.Buffer{Name: "self_attn.kv_a_layernorm.input", Shape: network.Dims{s, rank}},
		network.Buffer{
			Name: "self_attn.kv_b_proj.input", Shape: network.Dims{s, rank}, Lifetime: network.ForwardToWeight,
		},
		network.Buffer{
			Name: "self_attn.a_proj.output_gradient", Shape: network.Dims{s, m.QLoraRank + rank + rope},
			Lifetime: network.InputToWeight, Local: true,
		},
		network.Buffer{
			Name: "self_attn.q.output_gradient", Shape: network.Dims{s, m.Heads * m.HeadDim},
			Lifetime: network.InputToWeight, Sharded: true,
		},
		network.Buffer{
			Name:  "self_attn.kv_b_proj.output_gradient",
			Shape: network.Dims{s, m.Heads * (m.QKNopeHeadDim + m.VHeadDim)}, Lifetime: network.InputToWeight,
			Sharded: true,
		},
	)
}
