package arch

import (
	"fmt"
)

// llama makes a network of the family of Llama, Mistral, Qwen 2 and Gemma: RMSNorm, rotary
// positions, grouped queries, a gated MLP with SiLU or GELU, no biases but maybe
// of queries, keys and values, usually an untied head. With experts it is the
// family of Mixtral (see mixtral.go). Layers:
// embed, layers.0 …, norm, head. Tensors are named as in Hugging Face's
// checkpoint without its "model." prefix. Sliding windows are not modelled.
func llama(m Model) Network {
	s, h := m.SequenceLength, m.Hidden
	layers := []Layer{{
		Name:   "embed",
		Params: []Tensor{{Name: "embed_tokens.weight", Shape: Shape{m.Vocab, h}, Sharded: true}},
		Input:  Shape{s}, Output: Shape{s, h}, KeepsGradient: true,
		Ops: []Op{vocabulary("embed_tokens", m.Vocab, s, h)},
		Buffers: []Buffer{
			tokenIDs("tokens", s, ForwardToWeight),
			{Name: "embed.output_gradient", Shape: Shape{s, h}, Lifetime: InputToWeight},
		},
	}}
	ops, buffers := llamaBlockOps(m), llamaBlockBuffers(m)
	for i := range m.Layers {
		block := llamaBlock(m, i)
		block.Ops, block.Buffers = ops, buffers
		layers = append(layers, block)
	}
	final := Layer{
		Name: "norm", Params: []Tensor{{Name: "norm.weight", Shape: Shape{h}, Norm: true}},
		Input: Shape{s, h}, Output: Shape{s, h},
		Ops:     []Op{m.norm("norm", s, h)},
		Buffers: []Buffer{{Name: "norm.input", Shape: Shape{s, h}}},
	}
	return Network{TokensPerSample: s, Layers: append(layers, final, lmHead(m, "embed_tokens.weight")), Routing: m.routing()}
}

// llamaBlock makes a block without what all of them share: operations and buffers.
func llamaBlock(m Model, i int) Layer {
	name := fmt.Sprintf("layers.%d", i)
	return Layer{
		Name: name, Params: llamaBlockParams(name+".", m), Experts: m.Experts, Active: m.ExpertsPerToken,
		Input: Shape{m.SequenceLength, m.Hidden}, Output: Shape{m.SequenceLength, m.Hidden},
		Repeatable: true, KeepsGradient: true,
	}
}

func llamaBlockParams(prefix string, m Model) []Tensor {
	h, q, kv := m.Hidden, m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	params := []Tensor{{Name: "input_layernorm.weight", Shape: Shape{h}, Norm: true}}
	for i, width := range []int{q, kv, kv} {
		name := "self_attn." + "qkv"[i:i+1] + "_proj"
		params = append(params, Tensor{Name: name + ".weight", Shape: Shape{width, h}, Sharded: true})
		if m.QKVBias {
			params = append(params, Tensor{Name: name + ".bias", Shape: Shape{width}, Sharded: true})
		}
	}
	params = append(params,
		Tensor{Name: "self_attn.o_proj.weight", Shape: Shape{h, q}, Sharded: true, Axis: 1},
		Tensor{Name: "post_attention_layernorm.weight", Shape: Shape{h}, Norm: true},
	)
	if m.Experts > 0 {
		params = append(params, expertParams(m)...)
	} else {
		params = append(params, gatedParams(m)...)
	}
	for i := range params {
		params[i].Name = prefix + params[i].Name
	}
	return params
}

func gatedParams(m Model) []Tensor {
	h, f := m.Hidden, m.FFNHidden
	return []Tensor{
		{Name: "mlp.gate_proj.weight", Shape: Shape{f, h}, Sharded: true},
		{Name: "mlp.up_proj.weight", Shape: Shape{f, h}, Sharded: true},
		{Name: "mlp.down_proj.weight", Shape: Shape{h, f}, Sharded: true, Axis: 1},
	}
}

func llamaBlockOps(m Model) []Op {
	s, h := m.SequenceLength, m.Hidden
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	ops := []Op{
		m.norm("input_layernorm", s, h),
		m.linear("self_attn.q_proj", s, h, q, m.QKVBias).enters(),
		m.linear("self_attn.k_proj", s, h, kv, m.QKVBias),
		m.linear("self_attn.v_proj", s, h, kv, m.QKVBias),
	}
	ops = append(ops, m.copied(s, q, kv)...)
	ops = append(ops, m.between().rotary.op("self_attn.rotary", elements(s, q+kv)).sharded())
	ops = append(ops, m.repeated(s, q, kv)...)
	ops = append(ops, attention("self_attn.", m)...)
	ops = append(ops,
		m.linear("self_attn.o_proj", s, q, h, false).leaves(),
		m.residual("self_attn.residual", s, h),
		m.norm("post_attention_layernorm", s, h),
	)
	if m.Experts > 0 {
		ops = append(ops, expertOps(m)...)
	} else {
		ops = append(ops, gatedOps(m)...)
	}
	return append(ops, m.residual("mlp.residual", s, h))
}

func gatedOps(m Model) []Op {
	s, h, f := m.SequenceLength, m.Hidden, m.FFNHidden
	return []Op{
		m.linear("mlp.gate_proj", s, h, f, false).enters(),
		m.linear("mlp.up_proj", s, h, f, false),
		m.activation("mlp.silu", s, f),
		m.gate("mlp.gate", s, f),
		m.linear("mlp.down_proj", s, f, h, false).leaves(),
	}
}

// llamaBlockBuffers: k and v are kept once per group of heads.
func llamaBlockBuffers(m Model) []Buffer {
	s, h := m.SequenceLength, m.Hidden
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	buffers := []Buffer{
		{Name: "input_layernorm.input", Shape: Shape{s, h}},
		{Name: "self_attn.qkv.input", Shape: Shape{s, h}, Lifetime: ForwardToWeight},
	}
	buffers = append(buffers, attentionBuffers("self_attn.", m)...)
	buffers = append(buffers,
		Buffer{Name: "self_attn.qkv.output_gradient", Shape: Shape{s, q + 2*kv}, Lifetime: InputToWeight, Sharded: true},
		Buffer{Name: "self_attn.o_proj.output_gradient", Shape: Shape{s, h}, Lifetime: InputToWeight},
		Buffer{Name: "post_attention_layernorm.input", Shape: Shape{s, h}},
		Buffer{Name: "mlp.input", Shape: Shape{s, h}, Lifetime: ForwardToWeight},
	)
	if m.Experts > 0 {
		return append(buffers, expertBuffers(m)...)
	}
	buffers = append(buffers, gatedBuffers("mlp.", s, m.FFNHidden)...)
	return append(buffers, Buffer{Name: "mlp.down_proj.output_gradient", Shape: Shape{s, h}, Lifetime: InputToWeight})
}

// gatedBuffers lists the buffers inside a gated MLP over n tokens. The activation
// function and the gate are two kernels, so that the gate keeps both its factors.
func gatedBuffers(prefix string, n, f int) []Buffer {
	return []Buffer{
		{Name: prefix + "silu.input", Shape: Shape{n, f}, Sharded: true},
		{Name: prefix + "silu.output", Shape: Shape{n, f}, Sharded: true},
		{Name: prefix + "up_proj.output", Shape: Shape{n, f}, Sharded: true},
		{Name: prefix + "down_proj.input", Shape: Shape{n, f}, Lifetime: ForwardToWeight, Sharded: true},
		{Name: prefix + "gate_up.output_gradient", Shape: Shape{n, 2 * f}, Lifetime: InputToWeight, Sharded: true},
	}
}

// gate multiplies two tensors; its I reads both and the gradient and writes two.
func (m Model) gate(name string, s, f int) Op {
	return m.between().gate.op(name, elements(s, f)).sharded()
}
