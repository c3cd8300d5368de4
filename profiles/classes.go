package profiles

import (
	"regexp"
	"strings"
)

// A Class is what time of a device went to.
type Class uint8

// The classes. Of kernels that run at the same time the first one counts, as in psim's own account of a step:
// computation, then communication, then copies.
const (
	Optimizer Class = iota
	Attention
	Products // matrix products and convolutions
	Between  // everything else that computes: norms, functions, softmax, loss
	Transfer // collectives; those that several ranks have, without the time in which they wait for each other
	Messages // sends and receives, which last while they wait; an all-to-all that does not say its name is of them
	Skew     // a collective has begun and waits for other ranks
	Copies
	Launches // nothing runs, since the host launched the next kernel too late
	Idle
	classes
	ignored // no work: annotations, calls, waits
)

// String returns the name of a class, which is that of psim's own class where there is one.
func (c Class) String() string {
	return [...]string{
		"optimizer", "attention", "products", "between", "communication", "messages", "skew", "copies", "launches",
		"waiting",
	}[c]
}

// A pattern puts kernels into a class, by their names in lower case.
type pattern struct {
	class Class
	names *regexp.Regexp
}

// kernelPatterns are tried in order. Fused attention is often built from CUTLASS or by cuDNN, and so comes before
// products; an optimizer's kernels are multi_tensor_apply with its functor.
var kernelPatterns = []pattern{
	{Copies, regexp.MustCompile(`^(memcpy|memset)`)},
	{Transfer, regexp.MustCompile(`^(nccl|rccl|msccl).*kernel|^nvshmem|deep_ep|(one|two)_shot_all_?reduce|` +
		`multimem_(all_|one_shot|reduce)|cross_device_reduce`)},
	{Attention, regexp.MustCompile(`fmha|flash|sdpa|mha_|attention|attn|splitkv`)},
	{Optimizer, regexp.MustCompile(`adam|lamb(_|functor|stage)|adagrad|rmsprop|sgd|lion.*functor`)},
	{Products, regexp.MustCompile(`nvjet|gemm|gemv|xmma|cutlass.*kernel|cublas|^cijk_|wgmma|bmm|conv(?:olve|_|2d|3d)|` +
		`implicit|winograd|dgrad|wgrad|fprop|splitkreduce|^dot_kernel|triton_(tem|mm)_|triton_.*_mm_|` +
		`s(16816|884|1688)|[hs]cudnn_|miopen.*conv`)},
}

// mostName is how much of a name is looked at. The longest ones, of CUTLASS's templates, have a few thousand bytes.
const mostName = 1 << 16

// kernelClass returns the class of a kernel. What its arguments are of says nothing about it, nor does the library
// FBGEMM, most of whose kernels are of embeddings.
func kernelClass(name string) Class {
	name = name[:min(len(name), mostName)]
	name = strings.ReplaceAll(strings.ToLower(withoutArguments(name)), "fbgemm", "")
	for _, p := range kernelPatterns {
		if p.names.MatchString(name) {
			return p.class
		}
	}
	return Between
}

// withoutArguments cuts the arguments off the name of a function in C++.
func withoutArguments(name string) string {
	depth := 0
	for i := range len(name) {
		switch name[i] {
		case '<':
			depth++
		case '>':
			depth--
		case '(':
			if depth == 0 && i > 0 && !strings.HasPrefix(name[i:], "(anonymous namespace)") {
				return name[:i]
			}
		}
	}
	return name
}

// operationPatterns do the same for operations of the CPU. Operations lie in each other: those of a library that say
// what is computed count, and what encloses them (nodes of autograd, the calls of collectives) does not, since it
// also lasts while a rank waits.
var operationPatterns = []pattern{
	{ignored, regexp.MustCompile(`^(_?c10d|_c10d_functional|c10d_functional|autograd|torch|torch\.distributed)::`)},
	{Attention, regexp.MustCompile(`::_?(scaled_dot_product|flash|efficient)_?.*attention|::_flex_attention`)},
	{Products, regexp.MustCompile(`::(mm|addmm|bmm|baddbmm|matmul|_?convolution|convolution_backward|mkldnn_linear|` +
		`mkldnn_.*convolution|mv|dot|addmv|_scaled_mm|_grouped_mm|_int_mm|_addmm_activation|_weight_int.*mm)(_.*)?$`)},
	{Between, regexp.MustCompile(`^[a-z0-9_]+::`)},
}

// operationClass returns the class of an operation of the CPU.
func operationClass(name string) Class {
	name = name[:min(len(name), mostName)]
	for _, p := range operationPatterns {
		if p.names.MatchString(name) {
			return p.class
		}
	}
	return ignored
}

// annotationClass returns the class of a range that is named by a program. The work of gloo is one, on a thread of its
// own; its sends and receives last until somebody waits for them, and so say nothing about a transfer.
func annotationClass(name string) Class {
	switch {
	case strings.HasPrefix(name, "Optimizer.step"):
		return Optimizer
	case name == "gloo:send" || name == "gloo:recv" || name == "gloo:barrier" || !strings.HasPrefix(name, "gloo:"):
		return ignored
	}
	return Transfer
}
