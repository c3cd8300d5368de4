package arch

import "fmt"

// llama is the family of Llama and Mistral: RMSNorm, rotary positions, grouped
// queries, a gated MLP with SiLU, no biases, usually an untied head. Layers:
// embed, layers.0 …, norm, head. Tensors are named as in Hugging Face's
// checkpoint without its "model." prefix. Sliding windows are not modelled.
func llama(m Model) Network {
	s, h := m.SequenceLength, m.Hidden
	layers := []Layer{{
		Name:   "embed",
		Params: []Tensor{{Name: "embed_tokens.weight", Shape: Shape{m.Vocab, h}, Sharded: true}},
		Input:  Shape{s}, Output: Shape{s, h},
		Ops: []Op{vocabulary("embed_tokens", m.Vocab, s, h)},
		Buffers: []Buffer{
			tokenIDs("tokens", s, ForwardToWeight),
			{Name: "embed.output_gradient", Shape: Shape{s, h}, Lifetime: InputToWeight},
		},
	}}
	for i := range m.Layers {
		layers = append(layers, llamaBlock(m, i))
	}
	final := Layer{
		Name: "norm", Params: []Tensor{{Name: "norm.weight", Shape: Shape{h}}},
		Input: Shape{s, h}, Output: Shape{s, h},
		Ops:     []Op{norm("norm", s, h)},
		Buffers: []Buffer{{Name: "norm.input", Shape: Shape{s, h}}},
	}
	return Network{TokensPerSample: s, Layers: append(layers, final, lmHead(m, "embed_tokens.weight"))}
}

func llamaBlock(m Model, i int) Layer {
	name := fmt.Sprintf("layers.%d", i)
	return Layer{
		Name: name, Params: llamaBlockParams(name+".", m),
		Input: Shape{m.SequenceLength, m.Hidden}, Output: Shape{m.SequenceLength, m.Hidden},
		Ops: llamaBlockOps(m), Buffers: llamaBlockBuffers(m), Repeatable: true,
	}
}

func llamaBlockParams(prefix string, m Model) []Tensor {
	h, f, q, kv := m.Hidden, m.FFNHidden, m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	params := []Tensor{
		{Name: "input_layernorm.weight", Shape: Shape{h}},
		{Name: "self_attn.q_proj.weight", Shape: Shape{q, h}, Sharded: true},
		{Name: "self_attn.k_proj.weight", Shape: Shape{kv, h}, Sharded: true},
		{Name: "self_attn.v_proj.weight", Shape: Shape{kv, h}, Sharded: true},
		{Name: "self_attn.o_proj.weight", Shape: Shape{h, q}, Sharded: true, Axis: 1},
		{Name: "post_attention_layernorm.weight", Shape: Shape{h}},
		{Name: "mlp.gate_proj.weight", Shape: Shape{f, h}, Sharded: true},
		{Name: "mlp.up_proj.weight", Shape: Shape{f, h}, Sharded: true},
		{Name: "mlp.down_proj.weight", Shape: Shape{h, f}, Sharded: true, Axis: 1},
	}
	for i := range params {
		params[i].Name = prefix + params[i].Name
	}
	return params
}

func llamaBlockOps(m Model) []Op {
	s, h, f := m.SequenceLength, m.Hidden, m.FFNHidden
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	ops := []Op{
		norm("input_layernorm", s, h),
		linear("self_attn.q_proj", s, h, q, false).enters(),
		linear("self_attn.k_proj", s, h, kv, false),
		linear("self_attn.v_proj", s, h, kv, false),
		rotary("self_attn.rotary", s, q+kv),
	}
	ops = append(ops, attention("self_attn.", m)...)
	return append(ops,
		linear("self_attn.o_proj", s, q, h, false).leaves(),
		residual("self_attn.residual", s, h),
		norm("post_attention_layernorm", s, h),
		linear("mlp.gate_proj", s, h, f, false).enters(),
		linear("mlp.up_proj", s, h, f, false),
		activation("mlp.silu", s, f),
		gate("mlp.gate", s, f),
		linear("mlp.down_proj", s, f, h, false).leaves(),
		residual("mlp.residual", s, h),
	)
}

// llamaBlockBuffers: SiLU and the gate are two kernels, so that the gate keeps
// both its factors. k and v are kept once per group of heads.
func llamaBlockBuffers(m Model) []Buffer {
	s, h, f := m.SequenceLength, m.Hidden, m.FFNHidden
	q, kv := m.Heads*m.HeadDim, m.KVHeads*m.HeadDim
	buffers := []Buffer{
		{Name: "input_layernorm.input", Shape: Shape{s, h}},
		{Name: "self_attn.qkv.input", Shape: Shape{s, h}, Lifetime: ForwardToWeight},
	}
	buffers = append(buffers, attentionBuffers("self_attn.", m)...)
	return append(buffers, []Buffer{
		{Name: "post_attention_layernorm.input", Shape: Shape{s, h}},
		{Name: "mlp.input", Shape: Shape{s, h}, Lifetime: ForwardToWeight},
		{Name: "mlp.silu.input", Shape: Shape{s, f}, Sharded: true},
		{Name: "mlp.silu.output", Shape: Shape{s, f}, Sharded: true},
		{Name: "mlp.up_proj.output", Shape: Shape{s, f}, Sharded: true},
		{Name: "mlp.down_proj.input", Shape: Shape{s, f}, Lifetime: ForwardToWeight, Sharded: true},
		{Name: "self_attn.qkv.output_gradient", Shape: Shape{s, q + 2*kv}, Lifetime: InputToWeight, Sharded: true},
		{Name: "self_attn.o_proj.output_gradient", Shape: Shape{s, h}, Lifetime: InputToWeight},
		{Name: "mlp.gate_up.output_gradient", Shape: Shape{s, 2 * f}, Lifetime: InputToWeight, Sharded: true},
		{Name: "mlp.down_proj.output_gradient", Shape: Shape{s, h}, Lifetime: InputToWeight},
	}...)
}

// rotary turns q and k in place of themselves: read and write in F and in I.
func rotary(name string, s, width int) Op {
	op := elementwise(name, elements(s, width), 2, 2)
	op.Sharded = true
	return op
}

// gate multiplies two tensors; its I reads both and the gradient and writes two.
func gate(name string, s, f int) Op {
	op := elementwise(name, elements(s, f), 3, 5)
	op.Sharded = true
	return op
}
