package models

import (
	"fmt"
	"math"

	"psim/costmodel/network"
)

// gpt makes GPT-2: learned positions, a norm before each half of a block, GELU in the tanh form,
// biases everywhere, and a head that is usually tied to wte, unless keys say otherwise (see form.go).
// Its layers are embed, h.0 …, ln_f and
// head. Tensors have the names of Hugging Face's checkpoint without its "transformer." prefix, and
// the same initial values: a deviation of 0.02, and 0.02/√(2·layers) at the end of a residual
// branch.
func gpt(m Model) network.Network {
	s, h := m.SequenceLength, m.Hidden
	layers := []network.Layer{gptEmbedding(m)}
	ops, buffers := gptBlockOps(m), gptBlockBuffers(m)
	for i := range m.Layers {
		block := gptBlock(m, i)
		block.Ops, block.Buffers = ops, buffers
		layers = append(layers, block)
	}
	final := network.Layer{
		Name: "ln_f", Kind: m.chain(), Params: m.normParams("ln_f", h),
		Input: network.Dims{s, h}, Output: network.Dims{s, h},
		Ops:     []network.Op{m.anyNorm("ln_f", s, h)},
		Buffers: []network.Buffer{{Name: "ln_f.input", Shape: network.Dims{s, h}}},
	}
	return network.Network{TokensPerSample: s, Layers: append(layers, final, lmHead(m, "wte.weight"))}
}

func gptEmbedding(m Model) network.Layer {
	s, h := m.SequenceLength, m.Hidden
	params := []network.Tensor{
		{Name: "wte.weight", Shape: network.Dims{m.Vocab, h}, Sharded: true, Deviation: initializerRange},
	}
	ops := []network.Op{vocabulary("wte", m.Vocab, s, h)}
	if m.learned() {
		params = append(params, network.Tensor{
			Name: "wpe.weight", Shape: network.Dims{m.Positions, h}, Deviation: initializerRange,
		})
		ops = append(ops, lookup("wpe", network.Dims{m.Positions, h}, s, 3))
	}
	return m.withEmbeddingNorm(network.Layer{
		Name: "embed", Kind: m.kind(network.KindEmbedding), Dropout: m.Dropout, Params: params,
		Input: network.Dims{s}, Output: network.Dims{s, h}, KeepsGradient: m.Dropout == 0,
		Ops: append(ops, m.dropout("drop", s, h)...),
		Buffers: append(m.dropoutMask("drop", s, h),
			tokenIDs("tokens", s, network.ForwardToWeight),
			network.Buffer{Name: "embed.output_gradient", Shape: network.Dims{s, h}, Lifetime: network.InputToWeight},
		),
	})
}

// gptBlock makes a block without operations and buffers, which all blocks share.
func gptBlock(m Model, i int) network.Layer {
	s, h := m.SequenceLength, m.Hidden
	return network.Layer{
		Name:    fmt.Sprintf("h.%d", i),
		Kind:    m.kind(network.KindGPTBlock),
		Heads:   m.Heads,
		Dropout: m.Dropout,
		Params:  gptBlockParams(fmt.Sprintf("h.%d.", i), m),
		Input:   network.Dims{s, h}, Output: network.Dims{s, h},
		Repeatable: true, KeepsGradient: m.Dropout == 0,
	}
}

// initializerRange is the default of initializer_range in Hugging Face's models.
const initializerRange = 0.02

func gptBlockParams(prefix string, m Model) []network.Tensor {
	h, q, f := m.Hidden, m.Heads*m.HeadDim, m.FFNHidden
	residual := initializerRange / math.Sqrt(2*float64(m.Layers))
	params := m.normParams(prefix+"ln_1", h)
	params = append(params, biased(m.queryBias(), column(prefix+"attn.c_attn", h, m.queriesKeysValues()))...)
	params = append(params, biased(m.AttentionBias, row(prefix+"attn.c_proj", q, h, residual))...)
	params = append(params, m.normParams(prefix+"ln_2", h)...)
	params = append(params, biased(m.MLPBias, column(prefix+"mlp.c_fc", h, f))...)
	if m.gated() {
		params = append(params, biased(m.MLPBias, column(prefix+"mlp.c_gate", h, f))...)
	}
	return append(params, biased(m.MLPBias, row(prefix+"mlp.c_proj", f, h, residual))...)
}

// gptBlockOps makes 24sh²+4s²h FLOPs with f = 4h (Narayanan et al. 2021).
func gptBlockOps(m Model) []network.Op {
	s, h, q, f, all := m.SequenceLength, m.Hidden, m.Heads*m.HeadDim, m.FFNHidden, m.queriesKeysValues()
	ops := []network.Op{
		m.anyNorm("ln_1", s, h).Of(network.Norms),
		m.linear("attn.c_attn", matmul{s, h, all}, m.queryBias()).Entering(),
	}
	if m.queryBias() {
		ops = append(ops, m.summed(m.separate("attn.bias", all, traffic(2, 2), traffic(0, 0)))...)
	}
	ops = append(ops, m.separate("attn.join", all, traffic(0, 0), traffic(2, 2))...)
	if split := m.between().split; split.kernels > 0 {
		ops = append(ops, split.op("attn.split", elements(s, all)).Divided())
	}
	if m.rotary() {
		ops = append(ops, m.between().rotary.op("attn.rotary", elements(s, q+m.KVHeads*m.HeadDim)).Divided())
	}
	ops = append(ops, attention("attn.", m)...)
	ops = append(ops, m.linear("attn.c_proj", matmul{s, q, h}, m.AttentionBias).Leaving())
	ops = append(ops, m.summedIf(m.AttentionBias, m.dropoutAdd("attn.resid_dropout", "attn.residual"))...)
	ops = append(ops, m.anyNorm("ln_2", s, h).Of(network.Norms))
	mlp := []network.Op{m.linear("mlp.c_fc", matmul{s, h, f}, m.MLPBias).Entering()}
	between := []network.Op{m.activation(m.function("mlp."), s, f)}
	if m.gated() {
		mlp = append(mlp, m.linear("mlp.c_gate", matmul{s, h, f}, m.MLPBias))
		between = append(between, m.gate("mlp.gate", s, f))
	}
	mlp = append(mlp, m.summedIf(m.MLPBias, between)...)
	mlp = append(mlp, m.linear("mlp.c_proj", matmul{s, f, h}, m.MLPBias).Leaving())
	ops = append(ops, network.Within(network.DenseMLP, mlp)...)
	return append(ops, m.summedIf(m.MLPBias, m.dropoutAdd("mlp.dropout", "mlp.residual"))...)
}

// gptBlockBuffers lists the buffers of a block. With f = 4h, F keeps 16sh + as² elements. With
// dropout in fp16 these are the 34sh + 5as² bytes of Korthikanti et al. 2022, which include 2sh for
// two masks and 3as² for the softmax's dropout (mask and output). W needs 16sh elements.
func gptBlockBuffers(m Model) []network.Buffer {
	s, h, f := m.SequenceLength, m.Hidden, m.FFNHidden
	buffers := []network.Buffer{
		{Name: "ln_1.input", Shape: network.Dims{s, h}},
		{
			Name: "attn.c_attn.input", Shape: network.Dims{s, h}, Lifetime: network.ForwardToWeight,
			Modules: network.Norms,
		},
	}
	buffers = append(buffers, attentionBuffers("attn.", m)...)
	buffers = append(buffers, m.dropoutMask("attn.resid_dropout", s, h)...)
	buffers = append(buffers, m.dropoutMask("mlp.dropout", s, h)...)
	buffers = append(buffers, []network.Buffer{
		{Name: "ln_2.input", Shape: network.Dims{s, h}},
		{Name: "mlp.c_fc.input", Shape: network.Dims{s, h}, Lifetime: network.ForwardToWeight, Modules: network.Norms},
	}...)
	inside, first := []network.Buffer{{Name: m.function("mlp.") + ".input", Shape: network.Dims{s, f}}}, f
	switch {
	case m.gated():
		first = 2 * f
		inside = append(inside, network.Buffer{Name: "mlp.c_gate.output", Shape: network.Dims{s, f}})
		if !m.kernels().FusedGate {
			inside = append(inside, network.Buffer{Name: m.function("mlp.") + ".output", Shape: network.Dims{s, f}})
		}
	case m.keepsOnlyResult():
		inside = nil
	}
	for i := range inside {
		inside[i].Modules, inside[i].Sharded = network.DenseMLP, true
	}
	return append(append(buffers, inside...), []network.Buffer{
		{
			Name: "mlp.c_proj.input", Shape: network.Dims{s, f}, Lifetime: network.ForwardToWeight,
			Modules: network.DenseMLP, Sharded: true,
		},
		{
			Name: "attn.c_attn.output_gradient", Shape: network.Dims{s, m.queriesKeysValues()},
			Lifetime: network.InputToWeight, Sharded: true,
		},
		{Name: "attn.c_proj.output_gradient", Shape: network.Dims{s, h}, Lifetime: network.InputToWeight},
		{
			Name: "mlp.c_fc.output_gradient", Shape: network.Dims{s, first}, Lifetime: network.InputToWeight,
			Sharded: true,
		},
		{Name: "mlp.c_proj.output_gradient", Shape: network.Dims{s, h}, Lifetime: network.InputToWeight},
	}...)
}

// queriesKeysValues returns the features of all queries, keys and values.
func (m Model) queriesKeysValues() int { return (m.Heads + 2*m.KVHeads) * m.HeadDim }

// chain returns the kind of a layer with a norm, which only a layer norm describes.
func (m Model) chain() network.LayerKind {
	if m.Norm == NormLayer {
		return network.KindChain
	}
	return network.KindUnknown
}

// biased returns a weight and its bias, or the weight alone.
func biased(bias bool, params []network.Tensor) []network.Tensor {
	if bias {
		return params
	}
	return params[:1]
}

func layerNormParams(name string, h int) []network.Tensor {
	return []network.Tensor{
		{Name: name + ".weight", Shape: network.Dims{h}, Norm: true},
		{Name: name + ".bias", Shape: network.Dims{h}, Norm: true},
	}
}

// column names a weight [in, out] and its bias, both of which tensor parallelism cuts along out.
func column(name string, in, out int) []network.Tensor {
	return []network.Tensor{
		{Name: name + ".weight", Shape: network.Dims{in, out}, Sharded: true, Axis: 1, Deviation: initializerRange},
		{Name: name + ".bias", Shape: network.Dims{out}, Sharded: true},
	}
}

// row names a weight [in, out] that tensor parallelism cuts along in, and its bias, which every
// rank has whole.
func row(name string, in, out int, deviation float64) []network.Tensor {
	return []network.Tensor{
		{Name: name + ".weight", Shape: network.Dims{in, out}, Sharded: true, Deviation: deviation},
		{Name: name + ".bias", Shape: network.Dims{out}},
	}
}
