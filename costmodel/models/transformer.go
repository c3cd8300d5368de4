package models

import (
	"psim/costmodel/network"
)

// What the two transformer families share. s is the sequence length, h the
// hidden size, f that of the MLP; one sample is one sequence.

// linear multiplies s rows by an in×out weight.
func (m Model) linear(name string, s, in, out int, bias bool) network.Op {
	b := m.between()
	return network.Op{
		Name: name, Class: network.Product, Weight: true, Bias: bias, Sharded: true,
		AddsGradient:  m.kernels().AddsGradients,
		GradientMoved: b.gradient.Moved(1), GradientWrites: b.gradient.Writes(1), Numbers: b.sums,
		Count: 1, Rows: int64(s), Inner: int64(in), Cols: int64(out),
	}
}

// vocabulary looks tokens up in a table whose rows a tensor-parallel group
// divides: every device writes all s rows, zeros where it does not have them.
func vocabulary(name string, n, s, h int) network.Op {
	op := lookup(name, n, s, h, 2)
	op.Sharded, op.Leaves = true, true
	return op
}

// norm reads x and writes y; its I reads x and the gradient twice, once for the
// input's and once for the gains' gradient.
func (m Model) norm(name string, s, h int) network.Op {
	return m.between().norm.op(name, elements(s, h))
}

// layerNorm makes a norm with gain and bias.
func (m Model) layerNorm(name string, s, h int) network.Op {
	op := m.norm(name, s, h)
	op.Function = network.LayerNorm
	return op
}

// residual adds two tensors in F and two gradients in I.
func (m Model) residual(name string, s, h int) network.Op {
	return m.between().residual.op(name, elements(s, h))
}

// activation reads x and writes y; its I reads x and the gradient.
func (m Model) activation(name string, s, f int) network.Op {
	return m.between().activation.op(name, elements(s, f)).Divided()
}

// lookup gathers s rows of an n×h table; forward is the number of elements
// moved per element written (2, or 3 if the row is added to another tensor). W
// reads the output gradient and reads and writes rows of the table's gradient.
func lookup(name string, n, s, h int, forward int64) network.Op {
	e := elements(s, h)
	return network.Op{
		Name: name, Class: network.Lookup, Rows: int64(n), Cols: int64(h),
		Elements: e, Moved: [3]int64{forward * e, 0, 3 * e}, Writes: [3]int64{e, 0, e},
	}
}

// dropout zeroes elements at random and scales the others, unless the model has
// none. GPT-2 has it at one rate after the sum of the embeddings, on the
// attention's probabilities, and after both projections of a block. F writes a mask, which I reads: a byte beside each element.
func (m Model) dropout(name string, shape ...int) []network.Op {
	if m.Dropout == 0 {
		return nil
	}
	n := elements(shape...)
	op := network.NewElementwise(name, n, traffic(2, 2), traffic(2, 2))
	op.Mask = [3]int64{network.Forward: n, network.InputGradient: n}
	return []network.Op{op}
}

// dropoutMask lists what a dropout keeps; it is not needed for its own output.
func (m Model) dropoutMask(name string, shape ...int) []network.Buffer {
	if m.Dropout == 0 {
		return nil
	}
	return []network.Buffer{{Name: name + ".mask", Shape: shape, ElementBytes: 1}}
}

// lmHead makes the logits and the cross-entropy loss over them. The loss keeps
// its logarithms of probabilities in fp32 whatever the precision. It goes over the results of
// all modules that predict (see predictor.go).
func lmHead(m Model, embedding string) network.Layer {
	m.SequenceLength *= 1 + m.MTPLayers
	s, h, v := m.SequenceLength, m.Hidden, m.Vocab
	head := network.Layer{
		Name: "head", Kind: network.KindChain, Input: network.Dims{s, h}, Output: network.Dims{s, v},
		Ops: append([]network.Op{m.linear("lm_head", s, h, v, false).Entering()}, m.loss()...),
		Buffers: []network.Buffer{
			{Name: "lm_head.input", Shape: network.Dims{s, h}, Lifetime: network.ForwardToWeight},
			{Name: "loss.log_probabilities", Shape: network.Dims{s, v}, ElementBytes: 4, Sharded: true},
			tokenIDs("loss.targets", s, network.ForwardToInput),
			{Name: "lm_head.output_gradient", Shape: network.Dims{s, v}, Lifetime: network.InputToWeight, Sharded: true},
		},
	}
	if *m.Tied {
		head.Tied = []network.Tensor{{Name: embedding, Shape: network.Dims{v, h}, Sharded: true, Deviation: initializerRange}}
	} else {
		head.Params = []network.Tensor{{Name: "lm_head.weight", Shape: network.Dims{v, h}, Sharded: true, Deviation: initializerRange}}
	}
	return head
}

// tokenIDs keeps 4 bytes for each token, for W of the embedding or I of the loss.
func tokenIDs(name string, s int, lt network.Lifetime) network.Buffer {
	return network.Buffer{Name: name, Shape: network.Dims{s}, Lifetime: lt, ElementBytes: 4}
}

func elements(dims ...int) int64 { return network.Dims(dims).Elements() }

// projection names the weight [out, in] of nn.Linear, with its bias if it has one. Sharded
// ones are cut along out.
func projection(name string, in, out int, bias, sharded bool) []network.Tensor {
	params := []network.Tensor{{Name: name + ".weight", Shape: network.Dims{out, in}, Sharded: sharded}}
	if bias {
		params = append(params, network.Tensor{Name: name + ".bias", Shape: network.Dims{out}, Sharded: sharded})
	}
	return params
}

// projected names one that tensor parallelism cuts along in: every rank has the whole bias.
func projected(name string, in, out int, bias bool) []network.Tensor {
	params := []network.Tensor{{Name: name + ".weight", Shape: network.Dims{out, in}, Sharded: true, Axis: 1}}
	if bias {
		params = append(params, network.Tensor{Name: name + ".bias", Shape: network.Dims{out}})
	}
	return params
}

// gain names that of an RMSNorm over n features.
func gain(name string, n int) network.Tensor {
	return network.Tensor{Name: name + ".weight", Shape: network.Dims{n}, Norm: true}
}
