package models

import (
	"fmt"
	"slices"

	"psim/costmodel/network"
)

// llama makes a network of the family of Llama, Mistral, Qwen 2 and Gemma: RMSNorm, rotary positions,
// grouped queries, a gated MLP, optional biases of queries, keys and values, and usually an untied
// head, unless keys say otherwise (see form.go). With experts it is the family of Mixtral (see
// mixtral.go). Its layers are embed, layers.0 …, norm, mtp.0 … and head. Tensors have the names of
// Hugging Face's checkpoint without its "model." prefix.
func llama(m Model) network.Network {
	s, h := m.SequenceLength, m.Hidden
	layers := []network.Layer{llamaEmbedding(m)}
	shared := works{}
	for i, block := range m.blocks() {
		layers = append(layers, llamaBlock(block, i, shared))
	}
	final := network.Layer{
		Name: "norm", Params: m.normParams("norm", h), Input: network.Dims{s, h}, Output: network.Dims{s, h},
		Ops:     []network.Op{m.anyNorm("norm", s, h)},
		Buffers: []network.Buffer{{Name: "norm.input", Shape: network.Dims{s, h}}},
	}
	layers = append(layers, m.withTransform(final))
	for i := range m.MTPLayers {
		layers = append(layers, predictor(m, i, shared.of(m.predicting())))
	}
	return network.Network{
		TokensPerSample: s, Layers: append(layers, lmHead(m, "embed_tokens.weight")), Routing: m.routing(),
	}
}

// llamaEmbedding makes the table of tokens, and that of positions if the model has one.
func llamaEmbedding(m Model) network.Layer {
	s, h := m.SequenceLength, m.Hidden
	layer := network.Layer{
		Name: "embed", Dropout: m.Dropout,
		Params: []network.Tensor{{Name: "embed_tokens.weight", Shape: network.Dims{m.Vocab, h}, Sharded: true}},
		Input:  network.Dims{s}, Output: network.Dims{s, h}, KeepsGradient: m.Dropout == 0,
		Ops: []network.Op{vocabulary("embed_tokens", m.Vocab, s, h)},
		Buffers: append(m.dropoutMask("drop", s, h),
			tokenIDs("tokens", s, network.ForwardToWeight),
			network.Buffer{Name: "embed.output_gradient", Shape: network.Dims{s, h}, Lifetime: network.InputToWeight}),
	}
	if m.learned() {
		layer.Params = append(layer.Params, network.Tensor{
			Name: "embed_positions.weight", Shape: network.Dims{m.Positions, h},
		})
		layer.Ops = append(layer.Ops, lookup("embed_positions", network.Dims{m.Positions, h}, s, 3))
	}
	layer = m.withTokenTypes(layer)
	layer.Ops = append(layer.Ops, m.dropout("drop", s, h)...)
	return m.withEmbeddingNorm(layer)
}

// llamaBlock makes the i-th block. The model is that of the block (see Model.block).
func llamaBlock(m Model, i int, shared works) network.Layer {
	name, w := fmt.Sprintf("layers.%d", i), shared.of(m)
	return network.Layer{
		Name: name, Params: prefixed(name+".", w.params), Experts: m.Experts, Active: m.ExpertsPerToken,
		Input: network.Dims{m.SequenceLength, m.Hidden}, Output: network.Dims{m.SequenceLength, m.Hidden},
		Ops: w.ops, Buffers: w.buffers, Dropout: m.Dropout, Repeatable: true, KeepsGradient: m.Dropout == 0,
	}
}

func llamaBlockParams(m Model) []network.Tensor {
	var params []network.Tensor
	if all := ofParts(m, llamaBlockParams); all != nil {
		return all
	}
	if m.mixes() {
		params = append(m.normParams("input_layernorm", m.Hidden), mixerParams(m)...)
	}
	if !m.transforms() {
		return params
	}
	if !m.ParallelBlock || m.ParallelNorms {
		params = append(params, m.normParams("post_attention_layernorm", m.Hidden)...)
	}
	if m.Experts > 0 {
		params = append(params, expertParams(m)...)
	}
	if m.Experts == 0 || m.DenseBeside {
		params = append(params, m.mlpParams("mlp.", m.FFNHidden, m.MLPBias)...)
	}
	if m.PostNorms {
		params = append(params, m.normParams("post_mlp_layernorm", m.Hidden)...)
	}
	return params
}

// queryParams lists the tensors of queries, keys and values.
func queryParams(m Model) []network.Tensor {
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	var params []network.Tensor
	for i, width := range []int{m.queryWidth(), kv, m.valueWidth()} {
		if width > 0 {
			name := "self_attn." + "qkv"[i:i+1] + "_proj"
			params = append(params, columnProjection(name, m.Hidden, width, m.queryBias())...)
		}
	}
	if m.HeadGate {
		params = append(params, columnProjection("self_attn.g_proj", m.Hidden, m.Heads, false)...)
	}
	switch {
	case m.WholeQKNorm:
		for _, g := range []network.Tensor{gain("self_attn.q_norm", q), gain("self_attn.k_norm", kv)} {
			g.Sharded = true
			params = append(params, g)
		}
	case m.QKNorm && !m.PlainQKNorm:
		params = append(params, gain("self_attn.q_norm", m.HeadDim), gain("self_attn.k_norm", m.HeadDim))
	}
	return params
}

// queryWidth returns the features that the projection of queries makes: those of queries, and as many for
// a gate if there is one.
func (m Model) queryWidth() int {
	if m.AttentionGate {
		return 2 * m.Heads * m.HeadDim
	}
	return m.Heads * m.HeadDim
}

// queryBias reports whether queries, keys and values have biases.
func (m Model) queryBias() bool { return m.QKVBias || m.AttentionBias }

// mlpParams lists the tensors of an MLP, with or without a gate.
func (m Model) mlpParams(prefix string, f int, bias bool) []network.Tensor {
	h := m.Hidden
	var params []network.Tensor
	if m.gated() {
		params = columnProjection(prefix+"gate_proj", h, f, bias)
	}
	params = append(params, columnProjection(prefix+"up_proj", h, f, bias)...)
	return append(params, rowProjection(prefix+"down_proj", f, h, bias)...)
}

func llamaBlockOps(m Model) []network.Op {
	s, h := m.SequenceLength, m.Hidden
	var ops []network.Op
	if all := ofParts(m, llamaBlockOps); all != nil {
		return all
	}
	if m.mixes() {
		ops = append(ops, m.anyNorm("input_layernorm", s, h).Of(network.Norms))
		if m.ParallelNorms {
			ops = append(ops, m.anyNorm("post_attention_layernorm", s, h).Of(network.Norms))
		}
		ops = append(ops, m.mixerOps()...)
		out := m.mixerOut()
		if m.ParallelBlock { // its halves are summed before they leave
			out.Leaves = false
			ops = append(ops, out)
			ops = append(ops, gatedOps(m)...)
			return append(ops, m.residual("mlp.residual", s, h))
		}
		if m.only == both {
			sum := m.residual("self_attn.sum", s, h)
			out.Leaves, sum.Leaves = false, true
			ops = append(ops, out, sum)
		} else {
			ops = append(ops, out)
		}
		ops = append(ops, m.postNorm("post_self_attn_layernorm")...)
		ops = append(ops, m.dropoutAdd("self_attn.resid_dropout", "self_attn.residual")...)
	}
	if !m.transforms() {
		return ops
	}
	ops = append(ops, m.anyNorm("post_attention_layernorm", s, h).Of(network.Norms))
	switch {
	case m.Experts > 0 && m.DenseBeside:
		ops = append(ops, besideOps(m)...)
	case m.Experts > 0:
		ops = append(ops, network.Within(network.Mixture, expertOps(m))...)
	default:
		ops = append(ops, gatedOps(m)...)
	}
	ops = append(ops, m.postNorm("post_mlp_layernorm")...)
	return append(ops, m.dropoutAdd("mlp.dropout", "mlp.residual")...)
}

// postNorm makes the norm of the result of attention or of the MLP, if the model has one.
func (m Model) postNorm(name string) []network.Op {
	if !m.PostNorms {
		return nil
	}
	return []network.Op{m.anyNorm(name, m.SequenceLength, m.Hidden)}
}

// queryOps makes queries, keys and values, with norms of every head if the model has them, and rotary
// positions.
func queryOps(m Model) []network.Op {
	s, h := m.SequenceLength, m.Hidden
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	ops := []network.Op{
		m.linear("self_attn.q_proj", matmul{s, h, m.queryWidth()}, m.queryBias()).Entering(),
		m.linear("self_attn.k_proj", matmul{s, h, kv}, m.queryBias()),
	}
	if v := m.valueWidth(); v > 0 {
		ops = append(ops, m.linear("self_attn.v_proj", matmul{s, h, v}, m.queryBias()))
	}
	if m.HeadGate {
		ops = append(ops, m.linear("self_attn.g_proj", matmul{s, h, m.Heads}, false))
	}
	ops = append(ops, m.copied()...)
	if m.QKNorm {
		ops = append(ops, m.norm("self_attn.q_norm", s, q).Divided(), m.norm("self_attn.k_norm", s, kv).Divided())
	}
	if m.ValueNorm {
		ops = append(ops, m.norm("self_attn.v_norm", s, m.KVHeads*m.valueDim()).Divided())
	}
	if m.rotary() {
		ops = append(ops, m.between().rotary.op("self_attn.rotary", elements(s, q+kv)).Divided())
	}
	return append(ops, m.repeated()...)
}

// mlpOps makes an MLP with or without a gate, for all tokens.
func (m Model) mlpOps(prefix string, f int, bias bool) []network.Op {
	s, h := m.SequenceLength, m.Hidden
	in, out := matmul{s, h, f}, matmul{s, f, h}
	var ops []network.Op
	if m.gated() {
		ops = append(ops, m.linear(prefix+"gate_proj", in, bias))
	}
	ops = append(ops, m.linear(prefix+"up_proj", in, bias), m.activation(m.function(prefix), s, f))
	if m.gated() {
		ops = append(ops, m.gate(prefix+"gate", s, f))
	}
	ops[0] = ops[0].Entering()
	return append(ops, m.linear(prefix+"down_proj", out, bias).Leaving())
}

// gatedOps makes the MLP of a block. A parallel block adds the result of attention to that of the MLP, which shares
// the norm with attention, unless each has one.
func gatedOps(m Model) []network.Op {
	s, h := m.SequenceLength, m.Hidden
	ops := network.Within(network.DenseMLP, m.mlpOps("mlp.", m.FFNHidden, m.MLPBias))
	if m.ParallelBlock {
		ops[0].Enters, ops[len(ops)-1].Leaves = m.ParallelNorms, false
		sum := m.residual("mlp.sum", s, h)
		sum.Leaves = true
		ops = append(ops, sum)
	}
	return ops
}

// llamaBlockBuffers lists the buffers of a block. k and v are kept once per group of heads.
func llamaBlockBuffers(m Model) []network.Buffer {
	s, h := m.SequenceLength, m.Hidden
	var buffers []network.Buffer
	if all := ofParts(m, llamaBlockBuffers); all != nil {
		return all
	}
	if m.mixes() {
		buffers = append(buffers, network.Buffer{Name: "input_layernorm.input", Shape: network.Dims{s, h}})
		buffers = append(buffers, mixerBuffers(m)...)
		buffers = append(buffers, m.dropoutMask("self_attn.resid_dropout", s, h)...)
	}
	if m.transforms() {
		buffers = append(buffers, m.dropoutMask("mlp.dropout", s, h)...)
	}
	if m.mixes() {
		buffers = append(buffers, network.Buffer{
			Name: m.mixerOut().Name + ".output_gradient", Shape: network.Dims{s, h}, Lifetime: network.InputToWeight,
		})
	}
	if m.PostNorms {
		buffers = append(buffers,
			network.Buffer{Name: "post_self_attn_layernorm.input", Shape: network.Dims{s, h}},
			network.Buffer{Name: "post_mlp_layernorm.input", Shape: network.Dims{s, h}})
	}
	if m.transforms() {
		buffers = append(buffers, mlpBuffers(m)...)
	}
	return buffers
}

// llamaAttentionBuffers lists the buffers of attention.
func llamaAttentionBuffers(m Model) []network.Buffer {
	s, h := m.SequenceLength, m.Hidden
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	var buffers []network.Buffer
	if m.latent() {
		buffers = append(buffers, latentBuffers(m)...)
	} else {
		buffers = append(buffers, network.Buffer{
			Name: "self_attn.qkv.input", Shape: network.Dims{s, h}, Lifetime: network.ForwardToWeight,
			Modules: network.Norms,
		})
	}
	if m.QKNorm {
		buffers = append(buffers,
			network.Buffer{Name: "self_attn.q_norm.input", Shape: network.Dims{s, q}, Sharded: true},
			network.Buffer{Name: "self_attn.k_norm.input", Shape: network.Dims{s, kv}, Sharded: true})
	}
	v := m.valueWidth()
	if m.between().keptNorm != nil {
		v = kv // a copy of its own
	}
	if m.ValueNorm && v > 0 { // or it reads what the norm of keys reads
		buffers = append(buffers, network.Buffer{
			Name: "self_attn.v_norm.input", Shape: network.Dims{s, v}, Sharded: true,
		})
	}
	buffers = append(m.keptAngles(buffers), attentionBuffers("self_attn.", m)...)
	if !m.latent() {
		buffers = append(buffers, network.Buffer{
			Name:     "self_attn.qkv.output_gradient",
			Shape:    network.Dims{s, m.queryWidth() + kv + m.valueWidth() + m.gateWidth()},
			Lifetime: network.InputToWeight, Sharded: true,
		})
	}
	return m.gateBuffers(buffers)
}

// mlpBuffers lists the buffers of the MLP or of the experts of a block. In a parallel block attention
// and MLP share one norm, one input, and one gradient of their sum.
func mlpBuffers(m Model) []network.Buffer {
	s, h := m.SequenceLength, m.Hidden
	input := network.Buffer{
		Name: "mlp.input", Shape: network.Dims{s, h}, Lifetime: network.ForwardToWeight, Modules: network.Norms,
	}
	if m.Experts > 0 && m.SharedExperts == 0 && m.eagerly(eagerRouter) {
		input.ElementBytes = 4 // nothing but the router keeps it
	}
	if m.ParallelBlock {
		buffers := network.BuffersWithin(network.DenseMLP, m.gatedBuffers("mlp.", s, m.FFNHidden))
		if m.ParallelNorms { // both norms read the input of the block
			buffers = append(buffers, input)
		}
		return buffers
	}
	buffers := []network.Buffer{{Name: "post_attention_layernorm.input", Shape: network.Dims{s, h}}, input}
	if m.Experts > 0 {
		buffers = append(buffers, network.BuffersWithin(network.Mixture, expertBuffers(m))...)
		if !m.DenseBeside {
			return buffers
		}
		buffers = append(buffers, besideBuffers(m)...)
	}
	buffers = append(buffers, network.BuffersWithin(network.DenseMLP, m.gatedBuffers("mlp.", s, m.FFNHidden))...)
	return append(buffers, network.Buffer{
		Name: "mlp.down_proj.output_gradient", Shape: network.Dims{s, h}, Lifetime: network.InputToWeight,
	})
}

// gatedBuffers lists the buffers inside an MLP over n tokens. If the activation function and the gate
// are two kernels, the gate keeps both its factors; one fused kernel keeps the inputs of both.
func (m Model) gatedBuffers(prefix string, n, f int) []network.Buffer {
	if !m.gated() {
		return m.plainBuffers(prefix, n, f)
	}
	buffers := []network.Buffer{
		{Name: m.function(prefix) + ".input", Shape: network.Dims{n, f}, Sharded: true},
		{Name: prefix + "up_proj.output", Shape: network.Dims{n, f}, Sharded: true},
		{Name: prefix + "down_proj.input", Shape: network.Dims{n, f}, Lifetime: network.ForwardToWeight, Sharded: true},
		{
			Name: prefix + "gate_up.output_gradient", Shape: network.Dims{n, 2 * f}, Lifetime: network.InputToWeight,
			Sharded: true,
		},
	}
	if m.kernels().FusedGate {
		return buffers
	}
	return slices.Insert(m.keptGates(buffers, prefix, n, f), 1, network.Buffer{
		Name: m.function(prefix) + ".output", Shape: network.Dims{n, f}, Sharded: true,
	})
}

// plainBuffers lists the buffers inside an MLP without a gate.
func (m Model) plainBuffers(prefix string, n, f int) []network.Buffer {
	buffers := []network.Buffer{
		{Name: prefix + "down_proj.input", Shape: network.Dims{n, f}, Lifetime: network.ForwardToWeight, Sharded: true},
		{
			Name: prefix + "up_proj.output_gradient", Shape: network.Dims{n, f}, Lifetime: network.InputToWeight,
			Sharded: true,
		},
	}
	if m.keepsOnlyResult() {
		return buffers
	}
	return append(buffers, network.Buffer{
		Name: m.function(prefix) + ".input", Shape: network.Dims{n, f}, Sharded: true,
	})
}
