package arch

// What the two transformer families share. s is the sequence length, h the
// hidden size, f that of the MLP; one sample is one sequence.

// linear multiplies s rows by an in×out weight.
func (m Model) linear(name string, s, in, out int, bias bool) Op {
	b := m.between()
	return Op{
		Name: name, Class: Product, Weight: true, Bias: bias, Sharded: true, Adds: m.megatron(),
		Gathered: b.gradient.moved(1), GatherWrites: b.gradient.writes(1), Numbers: b.sums,
		Count: 1, Rows: int64(s), Inner: int64(in), Cols: int64(out),
	}
}

// enters marks the first reader of the input of a tensor-parallel part.
func (o Op) enters() Op {
	o.Enters = true
	return o
}

// leaves marks a product that is cut along Inner, so that its result is a sum
// over the tensor-parallel group.
func (o Op) leaves() Op {
	o.RowParallel, o.Leaves = true, true
	return o
}

// whole marks a product that every device of a tensor-parallel group makes, with sequence
// parallelism for its part of the sequence.
func (o Op) whole() Op {
	o.Sharded = false
	return o
}

// wide marks a product that keeps operands of 16 bits, whatever the precision.
func (o Op) wide() Op {
	o.Wide = true
	return o
}

// sharded marks what a tensor-parallel group divides.
func (o Op) sharded() Op {
	o.Sharded = true
	return o
}

// vocabulary looks tokens up in a table whose rows a tensor-parallel group
// divides: every device writes all s rows, zeros where it does not have them.
func vocabulary(name string, n, s, h int) Op {
	op := lookup(name, n, s, h, 2)
	op.Sharded, op.Leaves = true, true
	return op
}

// elementwise makes n elements; F and I move so much for each.
func elementwise(name string, n int64, forward, input traffic) Op {
	return Op{
		Name: name, Class: Elementwise, Elements: n,
		Moved: [3]int64{forward.moved(n), input.moved(n), 0}, Writes: [3]int64{forward.writes(n), input.writes(n), 0},
	}
}

// norm reads x and writes y; its I reads x and the gradient twice, once for the
// input's and once for the gains' gradient.
func (m Model) norm(name string, s, h int) Op { return m.between().norm.op(name, elements(s, h)) }

// layerNorm makes a norm with gain and bias.
func (m Model) layerNorm(name string, s, h int) Op {
	op := m.norm(name, s, h)
	op.Function = LayerNorm
	return op
}

// residual adds two tensors in F and two gradients in I.
func (m Model) residual(name string, s, h int) Op {
	return m.between().residual.op(name, elements(s, h))
}

// activation reads x and writes y; its I reads x and the gradient.
func (m Model) activation(name string, s, f int) Op {
	return m.between().activation.op(name, elements(s, f)).sharded()
}

// lookup gathers s rows of an n×h table; forward is the number of elements
// moved per element written (2, or 3 if the row is added to another tensor). W
// reads the output gradient and reads and writes rows of the table's gradient.
func lookup(name string, n, s, h int, forward int64) Op {
	e := elements(s, h)
	return Op{
		Name: name, Class: Lookup, Rows: int64(n), Cols: int64(h),
		Elements: e, Moved: [3]int64{forward * e, 0, 3 * e}, Writes: [3]int64{e, 0, e},
	}
}

// dropout zeroes elements at random and scales the others, unless the model has
// none. GPT-2 has it at one rate after the sum of the embeddings, on the
// attention's probabilities, and after both projections of a block. F writes a mask, which I reads: a byte beside each element.
func (m Model) dropout(name string, shape ...int) []Op {
	if m.Dropout == 0 {
		return nil
	}
	n := elements(shape...)
	op := elementwise(name, n, traffic{2, 2}, traffic{2, 2})
	op.Mask = [3]int64{Forward: n, InputGradient: n}
	return []Op{op}
}

// dropoutMask lists what a dropout keeps; it is not needed for its own output.
func (m Model) dropoutMask(name string, shape ...int) []Buffer {
	if m.Dropout == 0 {
		return nil
	}
	return []Buffer{{Name: name + ".mask", Shape: shape, ElementBytes: 1}}
}

// lmHead makes the logits and the cross-entropy loss over them. The loss keeps
// its logarithms of probabilities in fp32 whatever the precision. It goes over the results of
// all modules that predict (see predictor.go).
func lmHead(m Model, embedding string) Layer {
	m.SequenceLength *= 1 + m.MTPLayers
	s, h, v := m.SequenceLength, m.Hidden, m.Vocab
	head := Layer{
		Name: "head", Kind: KindChain, Input: Shape{s, h}, Output: Shape{s, v},
		Ops: append([]Op{m.linear("lm_head", s, h, v, false).enters()}, m.loss()...),
		Buffers: []Buffer{
			{Name: "lm_head.input", Shape: Shape{s, h}, Lifetime: ForwardToWeight},
			{Name: "loss.log_probabilities", Shape: Shape{s, v}, ElementBytes: 4, Sharded: true},
			tokenIDs("loss.targets", s, ForwardToInput),
			{Name: "lm_head.output_gradient", Shape: Shape{s, v}, Lifetime: InputToWeight, Sharded: true},
		},
	}
	if *m.Tied {
		head.Tied = []Tensor{{Name: embedding, Shape: Shape{v, h}, Sharded: true, Deviation: initializerRange}}
	} else {
		head.Params = []Tensor{{Name: "lm_head.weight", Shape: Shape{v, h}, Sharded: true, Deviation: initializerRange}}
	}
	return head
}

// tokenIDs keeps 4 bytes for each token, for W of the embedding or I of the loss.
func tokenIDs(name string, s int, lt Lifetime) Buffer {
	return Buffer{Name: name, Shape: Shape{s}, Lifetime: lt, ElementBytes: 4}
}

func elements(dims ...int) int64 { return Shape(dims).Elements() }
