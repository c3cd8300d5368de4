package arch

import "cmp"

// The legal values of Model.Kernels: which kernels the parts of a transformer
// between its products are.
const (
	// KernelsFused: the softmax of attention and the loss are one kernel each.
	KernelsFused = "fused"
	// KernelsEager has a kernel for every operation of PyTorch: copies to split queries, keys
	// and values of one product, rotary positions step by step, a loss in fp32, and
	// gradients of weights that are copied or added up after their product.
	KernelsEager = "eager"
	// KernelsCompiled: torch.compile makes one kernel of what follows each other without
	// products: a sum goes into the norm after it, and its gradient's into that norm's.
	KernelsCompiled = "compiled"
	// KernelsTE has Transformer Engine's kernels and Megatron's fused ones: norms, an
	// activation function with its gate, a loss that PyTorch's JIT fuses in part.
	KernelsTE = "te"
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

// torchtitan reports whether PyTorch runs torchtitan's code.
func (m Model) torchtitan() bool {
	return m.Code == CodeTorchtitan && (m.Kernels == KernelsEager || m.Kernels == KernelsCompiled)
}

// repeated makes the repetition of keys and values for all heads of their group, and the
// sums of their gradients.
func (m Model) repeated(s, q, kv int) []Op {
	if !m.torchtitan() || q == kv {
		return nil
	}
	return []Op{moves{forward: 2, input: 2, kernels: 2, inverse: 2}.op("self_attn.repeat", elements(s, q+kv)).sharded()}
}

// rms reports whether norms are RMSNorm, which PyTorch has had no kernel for: it is steps
// in fp32.
func (m Model) rms() bool { return m.Family == familyLlama || m.Family == familyMixtral }

// copied makes the copies of queries, keys and values in nanotron: the results of one
// product into three tensors, keys and values joined and put in order; and back.
func (m Model) copied(s, q, kv int) []Op {
	if m.Kernels != KernelsEager || m.Code != CodeNanotron {
		return nil
	}
	all, keys := elements(s, q+2*kv), elements(s, 2*kv)
	return []Op{{
		Name: "self_attn.copies", Class: Elementwise, Elements: all, Sharded: true,
		Moved: [3]int64{2*all + 4*keys, 4*all + 2*keys, 0}, Launches: [3]int{3, 3, 0},
	}}
}

func (m Model) megatron() bool { return m.Kernels == KernelsMegatron }

// The legal values of Model.Code: whose code KernelsEager and KernelsCompiled launch for a
// Llama, and KernelsMegatron for a GPT.
const (
	// CodePlain has norms and rotary positions step by step, as PyTorch's users write them.
	CodePlain = "plain"
	// CodeTorchtitan is plain, with rotary positions as complex numbers in fp32, which
	// torch.compile leaves as they are, and keys and values repeated for the heads of their
	// group (torchtitan/models/llama/model.py of 2024).
	CodeTorchtitan = "torchtitan"
	// CodeNanotron has FlashAttention's norms and rotary positions, and one product of
	// queries, keys and values, whose result is copied (nanotron/models/llama.py of 2024).
	CodeNanotron = "nanotron"
	// CodeMegatron2021 is Megatron-LM before gradient_accumulation_fusion and
	// persist_layer_norm: gradients of weights are added up in 16 bits in a kernel of their
	// own, and norms go over their input and its gradient twice.
	CodeMegatron2021 = "megatron-2021"
)

// UsedKernels returns the kernels of a model, or of its preset: KernelsFused where nothing
// is said, or there is no model.
func (m Model) UsedKernels() string {
	r, err := m.resolve()
	if err != nil {
		return KernelsFused
	}
	return cmp.Or(r.Kernels, KernelsFused)
}

// UsedAttention returns how a model, or its preset, computes attention: AttentionUnfused
// where nothing is said.
func (m Model) UsedAttention() string {
	r, err := m.resolve()
	if err != nil {
		return AttentionUnfused
	}
	return cmp.Or(r.Attention, AttentionUnfused)
}

// UsedWindow returns the tokens that attention sees and the sequence's length, where these
// are more; otherwise 0.
func (m Model) UsedWindow() (window, length int) {
	r, err := m.resolve()
	if err != nil || r.Window == 0 || r.Window >= r.SequenceLength {
		return 0, 0
	}
	return r.Window, r.SequenceLength
}

// Transformer reports whether a model has blocks with attention: it names a file, or is of
// a family of transformers.
func (m Model) Transformer() bool {
	r, err := m.resolve()
	return err == nil && (r.File != "" || r.transformer())
}

// Dropless reports whether tokens choose experts, which take all that come: how many these
// are is known when they are there.
func (m Model) Dropless() bool {
	r, err := m.resolve()
	return err == nil && r.Experts > 0 && r.Capacity == 0
}

// A KernelSet is what Model.Kernels may name.
type KernelSet struct{ Name, Summary string }

// KernelSets lists them.
func KernelSets() []KernelSet {
	return []KernelSet{
		{KernelsEager, "a kernel for every operation of PyTorch, and copies between"},
		{KernelsCompiled, "torch.compile: what follows each other without products is one kernel"},
		{KernelsTE, "Transformer Engine's: norms, a function with its gate, a loss fused in part"},
		{KernelsFused, "one kernel each, which moves what it has to; the default"},
		{KernelsMegatron, "Megatron-LM's of 2021 to 2023; the default of presets megatron-*"},
	}
}

func kernelNames() (names []string) {
	for _, set := range KernelSets() {
		names = append(names, set.Name)
	}
	return names
}

// A moves is what an operation between products moves and launches: elements of 16 bits
// read and written for each element of its result, in F and in I, and kernels.
type moves struct {
	forward, input   int64
	kernels, inverse int // of F and of I; 0 means 1 where something is moved
}

// op makes it for n elements.
func (v moves) op(name string, n int64) Op {
	op := elementwise(name, n, v.forward, v.input)
	op.Launches = [3]int{Forward: v.kernels, InputGradient: v.inverse}
	return op
}

// A between is what a set of kernels has for each operation between products.
type between struct {
	norm, residual, activation, gate, rotary, loss moves
	split                                          moves // of queries, keys and values that one product made
	gradient                                       int64 // elements that W moves for one of a weight, in a kernel of its own
}

// between tells what the model's kernels move, counted from what every one of them has to
// read and write: docs/kernels.md says it operation by operation.
func (m Model) between() between {
	b := between{
		norm: moves{forward: 2, input: 5}, residual: moves{forward: 3, input: 3}, activation: moves{forward: 2, input: 3},
		gate: moves{forward: 3, input: 5}, rotary: moves{forward: 2, input: 2}, loss: moves{forward: 2, input: 2},
	}
	switch m.Kernels {
	case KernelsEager:
		b.norm.inverse = 2
		b.gate = moves{forward: 3, input: 6, inverse: 2}
		b.rotary = moves{forward: 10, input: 10, kernels: 10, inverse: 10}
		b.loss = moves{forward: 7, input: 11, kernels: 3, inverse: 3}
		switch {
		case m.Code == CodeNanotron:
			b.gate, b.rotary = moves{forward: 3, input: 10, inverse: 3}, moves{forward: 2, input: 2}
		case m.rms():
			b.norm = moves{forward: 18, input: 42, kernels: 8, inverse: 14}
		}
		b.split = moves{forward: 2, input: 2, kernels: 3}
		b.gradient = 5
	case KernelsCompiled:
		b.residual = moves{forward: 2, input: 1}
		b.norm.inverse = 2
		b.activation, b.gate = moves{forward: 2, input: 3}, moves{forward: 1, input: 2}
		b.loss = moves{forward: 7, input: 11, kernels: 3, inverse: 3}
		b.gradient = 3
	case KernelsMegatron:
		b.norm.input = 3
		if m.Code == CodeMegatron2021 {
			b.norm.input, b.gradient = 5, 3
		}
	case KernelsTE:
		b.norm.inverse = 2
		b.gate = moves{forward: 1, input: 2}
		b.loss = moves{forward: 13, input: 7, kernels: 4, inverse: 2}
	}
	if m.torchtitan() {
		b.rotary = moves{forward: 10, input: 10, kernels: 6, inverse: 6}
	}
	return b
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

// summed has the first operation after a product read the gradient of its bias in W, where
// that is summed in a kernel of its own.
func (m Model) summed(ops []Op) []Op {
	if m.megatron() && len(ops) > 0 {
		ops[0].Moved[WeightGradient] = ops[0].Elements
	}
	return ops
}

// loss returns the cross-entropy over the vocabulary. Megatron's goes over the logits
// for their maximum and to subtract it, for exponentials and their sum, and to
// divide by that; I multiplies the result, and converts it back.
func (m Model) loss() []Op {
	n := elements(m.SequenceLength, m.Vocab)
	loss := m.between().loss.op("loss", n)
	loss.Function = CrossEntropy
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
	ops := append(m.dropout(dropout, s, h), m.residual(sum, s, h))
	if m.megatron() && len(ops) == 2 {
		ops[0].Moved[Forward], ops[0].Mask[Forward] = 0, 0
		ops[1].Mask[Forward] = elements(s, h)
	}
	return m.summed(ops)
}
