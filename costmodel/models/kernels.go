package models

import (
	"cmp"

	"psim/costmodel/network"
)

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
func (m Model) repeated(s, q, kv int) []network.Op {
	if !m.torchtitan() || q == kv {
		return nil
	}
	repeat := moves{forward: traffic(2, 2), input: traffic(2, 2), kernels: 2, inverse: 2}.op("self_attn.repeat", elements(s, q+kv))
	repeat.Writes = [3]int64{network.Forward: elements(s, 2*q), network.InputGradient: elements(s, 2*kv)} // reads the reverse
	return []network.Op{repeat.Divided()}
}

// rms reports whether norms are RMSNorm, which PyTorch has had no kernel for: it is steps
// in fp32.
func (m Model) rms() bool { return m.Family == FamilyLlama || m.Family == FamilyMixtral }

// copied makes the copies of queries, keys and values in nanotron: the results of one
// product into three tensors, keys and values joined and put in order; and back.
func (m Model) copied(s, q, kv int) []network.Op {
	if m.Kernels != KernelsEager || m.Code != CodeNanotron {
		return nil
	}
	all, keys := elements(s, q+2*kv), elements(s, 2*kv)
	return []network.Op{{
		Name: "self_attn.copies", Class: network.Elementwise, Elements: all, Sharded: true,
		Moved: [3]int64{2*all + 4*keys, 4*all + 2*keys, 0}, Writes: [3]int64{all + 2*keys, 2*all + keys, 0}, Launches: [3]int{3, 3, 0},
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
