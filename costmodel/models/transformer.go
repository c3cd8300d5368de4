package models

import (
	"slices"

	"psim/costmodel/network"
)

// The parts that all families of transformers share. s is the sequence length, h the hidden size
// and f the hidden size of the MLP; one sample is one sequence.

// A matmul is the size of a product of a number of rows with an in×out weight.
type matmul struct{ rows, in, out int }

// linear makes the product of a linear layer.
func (m Model) linear(name string, size matmul, bias bool) network.Op {
	b := m.between()
	return network.Op{
		Name: name, Class: network.Product, Weight: true, Bias: bias, Sharded: true,
		AddsGradient:  m.kernels().AddsGradients,
		GradientMoved: b.gradient.Moved(1), GradientWrites: b.gradient.Writes(1), Numbers: b.sums,
		Count: 1, Rows: int64(size.rows), Inner: int64(size.in), Cols: int64(size.out),
	}
}

// vocabulary looks up s tokens in an n×h table whose rows a tensor-parallel group divides: every
// device writes all s rows, with zeros for tokens that are not in its part of the table.
func vocabulary(name string, n, s, h int) network.Op {
	op := lookup(name, network.Dims{n, h}, s, 2)
	op.Sharded, op.Leaves = true, true
	return op
}

// norm makes a norm. F reads x and writes y; I reads x and the gradient twice, once for the
// gradient of the input and once for that of the gains.
func (m Model) norm(name string, s, h int) network.Op {
	return m.between().norm.op(name, elements(s, h))
}

// layerNorm makes a norm with gain and bias.
func (m Model) layerNorm(name string, s, h int) network.Op {
	op := m.norm(name, s, h)
	op.Function = network.LayerNorm
	return op
}

// anyNorm makes a norm of the model's kind.
func (m Model) anyNorm(name string, s, h int) network.Op {
	if m.Norm == NormLayer {
		return m.layerNorm(name, s, h)
	}
	return m.norm(name, s, h)
}

// residual makes a sum of two tensors in F and of two gradients in I.
func (m Model) residual(name string, s, h int) network.Op {
	return m.between().residual.op(name, elements(s, h))
}

// activation makes an activation function. F reads x and writes y; I reads x and the gradient.
func (m Model) activation(name string, s, f int) network.Op {
	return m.between().activation.op(name, elements(s, f)).Divided()
}

// lookup gathers s rows of a table; forward is the number of elements moved for each element
// written (2, or 3 if the row is added to another tensor). W reads the output's gradient and reads
// and writes rows of the table's gradient.
func lookup(name string, table network.Dims, s int, forward int64) network.Op {
	e := elements(s, table[1])
	return network.Op{
		Name: name, Class: network.Lookup, Rows: int64(table[0]), Cols: int64(table[1]),
		Elements: e, Moved: [3]int64{forward * e, 0, 3 * e}, Writes: [3]int64{e, 0, e},
	}
}

// dropout makes an operation that zeroes elements at random and scales the others, if the model has
// dropout. GPT-2 has it at the same rate after the sum of the embeddings, on the attention's
// probabilities, and after both projections of a block. F writes a mask with a byte for each
// element, and I reads it.
func (m Model) dropout(name string, shape ...int) []network.Op {
	if m.Dropout == 0 {
		return nil
	}
	n := elements(shape...)
	op := network.NewElementwise(name, n, traffic(2, 2), traffic(2, 2))
	op.Mask = [3]int64{network.Forward: n, network.InputGradient: n}
	return []network.Op{op}
}

// dropoutMask lists the buffer of a dropout, its mask. The gradient does not need its output.
func (m Model) dropoutMask(name string, shape ...int) []network.Buffer {
	if m.Dropout == 0 {
		return nil
	}
	return []network.Buffer{{Name: name + ".mask", Shape: shape, ElementBytes: 1}}
}

// lmHead makes the logits and the cross-entropy loss over them. The loss keeps its logarithms of
// probabilities in fp32 for any precision. It covers the results of all modules that predict (see
// predictor.go).
func lmHead(m Model, embedding string) network.Layer {
	m.SequenceLength *= 1 + m.MTPLayers
	s, h, v := m.SequenceLength, m.Hidden, m.Vocab
	head := network.Layer{
		Name: "head", Kind: network.KindChain, Input: network.Dims{s, h}, Output: network.Dims{s, v},
		Ops: append([]network.Op{m.linear("lm_head", matmul{s, h, v}, m.HeadBias).Entering()}, m.loss()...),
		Buffers: slices.Concat(
			[]network.Buffer{{Name: "lm_head.input", Shape: network.Dims{s, h}, Lifetime: network.ForwardToWeight}},
			m.logits(),
		),
	}
	if *m.Tied {
		head.Tied = []network.Tensor{
			{Name: embedding, Shape: network.Dims{v, h}, Sharded: true, Deviation: initializerRange},
		}
	} else {
		head.Params = []network.Tensor{
			{Name: "lm_head.weight", Shape: network.Dims{v, h}, Sharded: true, Deviation: initializerRange},
		}
	}
	if m.HeadBias {
		head.Params = append(head.Params, network.Tensor{Name: "lm_head.bias", Shape: network.Dims{v}, Sharded: true})
	}
	return head
}

// withEmbeddingNorm adds a norm to the end of an embedding, if the model has one.
func (m Model) withEmbeddingNorm(layer network.Layer) network.Layer {
	if !m.EmbeddingNorm {
		return layer
	}
	const name = "embed_norm"
	s, h := m.SequenceLength, m.Hidden
	layer.Params = append(layer.Params, m.normParams(name, h)...)
	layer.Ops = append(layer.Ops, m.anyNorm(name, s, h))
	layer.Buffers = append(layer.Buffers, network.Buffer{Name: name + ".input", Shape: network.Dims{s, h}})
	layer.KeepsGradient = false
	return layer
}

// tokenIDs keeps 4 bytes for each token, for W of the embedding or I of the loss.
func tokenIDs(name string, s int, lt network.Lifetime) network.Buffer {
	return network.Buffer{Name: name, Shape: network.Dims{s}, Lifetime: lt, ElementBytes: 4}
}

func elements(dims ...int) int64 { return network.Dims(dims).Elements() }

// columnProjection names the weight [out, in] of nn.Linear, and its bias if it has one. Tensor
// parallelism cuts them along out.
func columnProjection(name string, in, out int, bias bool) []network.Tensor {
	params := wholeProjection(name, in, out, bias)
	for i := range params {
		params[i].Sharded = true
	}
	return params
}

// wholeProjection names the same tensors where tensor parallelism does not cut them.
func wholeProjection(name string, in, out int, bias bool) []network.Tensor {
	params := []network.Tensor{{Name: name + ".weight", Shape: network.Dims{out, in}}}
	if bias {
		params = append(params, network.Tensor{Name: name + ".bias", Shape: network.Dims{out}})
	}
	return params
}

// rowProjection names the same tensors where tensor parallelism cuts the weight along in. Every
// rank has the whole bias.
func rowProjection(name string, in, out int, bias bool) []network.Tensor {
	params := []network.Tensor{{Name: name + ".weight", Shape: network.Dims{out, in}, Sharded: true, Axis: 1}}
	if bias {
		params = append(params, network.Tensor{Name: name + ".bias", Shape: network.Dims{out}})
	}
	return params
}

// gain names the gain of an RMSNorm over n features.
func gain(name string, n int) network.Tensor {
	return network.Tensor{Name: name + ".weight", Shape: network.Dims{n}, Norm: true}
}
