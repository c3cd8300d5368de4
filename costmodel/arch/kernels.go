package arch

// The legal values of Model.Kernels: which kernels the parts of a transformer
// between its products are.
const (
	// KernelsFused: the softmax of attention and the loss are one kernel each.
	KernelsFused = "fused"
	// KernelsMegatron is as in Megatron-LM, in 16-bit precision. Its softmax reads
	// what the causal mask leaves, for four matrices of attention at a time; where
	// samples × heads of a device are no multiple of four, PyTorch's own kernels
	// follow each other instead (megatron/core/fusions/fused_softmax.py). The bias
	// of queries, keys and values has a kernel of its own, and the context is
	// copied into order (core/transformer/attention.py). Dropout and the sum after
	// it are one kernel in F. The loss is a kernel for every step over logits in
	// fp32 (core/tensor_parallel/cross_entropy.py).
	KernelsMegatron = "megatron"
)

func (m Model) megatron() bool { return m.Kernels == KernelsMegatron }

// MegatronKernels reports whether a model, or its preset, has KernelsMegatron.
func (m Model) MegatronKernels() bool {
	r, err := m.resolve()
	return err == nil && r.megatron()
}

// In the counts below, elements are of 16 bits, and one in fp32 is two.

// softmax of all heads over the whole square, and what runs around it where there
// is no fused kernel: conversions read one element and write two, or the reverse,
// and the others read and write two.
func (m Model) softmax(name string) []Op {
	n := elements(m.Heads, m.SequenceLength, m.SequenceLength)
	fused := elementwise(name, n, 2, 3)
	if !m.megatron() {
		return []Op{fused}
	}
	fused.Moved = [3]int64{3 * n / 2, 2 * n, 0}
	step := func(step string, moved int64) Op {
		op := elementwise(name+"."+step, n, moved, moved)
		op.Count, op.Unless = int64(m.Heads), 4
		return op
	}
	return []Op{step("to_fp32", 3), step("scale", 4), step("mask", 4), fused, step("to_fp16", 3)}
}

// apart makes an operation on s × n elements that other frameworks have in the
// product beside it.
func (m Model) apart(name string, n int, forward, input int64) []Op {
	if !m.megatron() {
		return nil
	}
	return []Op{elementwise(name, elements(m.SequenceLength, n), forward, input).sharded()}
}

// loss returns the cross-entropy over the vocabulary. Megatron's goes over the logits
// for their maximum and to subtract it, for exponentials and their sum, and to
// divide by that; I multiplies the result, and converts it back.
func (m Model) loss() []Op {
	n := elements(m.SequenceLength, m.Vocab)
	loss := crossEntropy(n)
	loss.Rows = int64(m.SequenceLength)
	ops := []Op{loss}
	if m.megatron() {
		loss.Moved = [3]int64{4 * n, 4 * n, 0}
		ops = []Op{
			elementwise("loss.to_fp32", n, 3, 3), elementwise("loss.max", n, 2, 0), elementwise("loss.subtract", n, 4, 0),
			elementwise("loss.exp", n, 4, 0), elementwise("loss.sum", n, 2, 0), loss,
		}
	}
	for i := range ops {
		ops[i].Sharded = true
	}
	return ops
}

// dropoutAdd makes a dropout and the sum of its result and the residual stream. What
// one kernel does in F writes the mask and no result of the dropout.
func (m Model) dropoutAdd(dropout, sum string) []Op {
	s, h := m.SequenceLength, m.Hidden
	ops := append(m.dropout(dropout, s, h), residual(sum, s, h))
	if m.megatron() && len(ops) == 2 {
		ops[0].Moved[Forward] = 0
		ops[1].Moved[Forward] += elements(s, h) / 4
	}
	return ops
}
