package models

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"psim/configs/catalog"
	"psim/costmodel/network"
)

// KernelsFused names the set of kernels that has one kernel for every operation between products. It
// is the default, and other sets of the catalog are described by their differences from it.
const KernelsFused = "fused"

// A KernelSet is a set of kernels that Model.Kernels may name: the kernels of the parts of a
// transformer between its products. Times and buffers follow from it.
type KernelSet struct {
	Name    string `toml:"-"`
	Summary string `toml:"summary"`
	// Help describes the set in psim help config.
	Help catalog.Text `toml:"help"`
	// Sets are settings, as lines of TOML, with the host's time to launch a kernel; Source says
	// where that time is from.
	Sets   []string     `toml:"sets"`
	Source catalog.Text `toml:"source"`

	// UnfusedAttention: attention is unfused by default.
	UnfusedAttention bool `toml:"unfused_attention"`
	// MaskedSoftmax: the softmax reads only elements that the causal mask does not cover, for four
	// matrices of attention at a time. If samples × heads of a device is not a multiple of four,
	// PyTorch's own kernels run one after another instead.
	MaskedSoftmax bool `toml:"masked_softmax"`
	// SeparateBias: the bias of queries, keys and values has a kernel of its own, the gradient of
	// every bias is summed in a kernel of its own, and the context is copied into order.
	SeparateBias bool `toml:"separate_bias"`
	// DropoutSum: dropout and the sum after it are one kernel in F.
	DropoutSum bool `toml:"dropout_sum"`
	// StepwiseLoss: the loss has a kernel for every step over logits in fp32.
	StepwiseLoss bool `toml:"stepwise_loss"`
	// AddsGradients: products add gradients of weights to those of earlier microbatches.
	AddsGradients bool `toml:"adds_gradients"`
	// FusedGate: an activation function and its gate are one kernel, which keeps the inputs of both.
	FusedGate bool `toml:"fused_gate"`
	// Router counts the kernels that choose the experts of a token and prepare its dispatch, besides
	// the router's product and the copies of tokens; 0 means one.
	Router int `toml:"router"`
	// ExpertByExpert: each expert has products of its own, with the two before the activation
	// function joined in one. Biases and bounds have kernels of their own, and a token's weights are
	// multiplied with the result of the activation function.
	ExpertByExpert bool `toml:"expert_by_expert"`

	Between launches `toml:"between"`
}

// launches lists the operations between products of a set of kernels, or the changes to them by a
// program's code; nil means no change.
type launches struct {
	Norm       *launch `toml:"norm"`
	RMSNorm    *launch `toml:"rms_norm"` // if it differs from Norm, as in PyTorch without a kernel for it
	Residual   *launch `toml:"residual"`
	Activation *launch `toml:"activation"`
	Gate       *launch `toml:"gate"`
	Rotary     *launch `toml:"rotary"`
	Loss       *launch `toml:"loss"`
	Split      *launch `toml:"split"`    // of the result of one product into queries, keys and values
	Gradient   *launch `toml:"gradient"` // of a weight, in a kernel of its own
	// Copies: queries, keys and values are copied out of the result of one product. Repeats: keys
	// and values are repeated for all heads of their group.
	Copies bool `toml:"copies"`
	// Forms are operations as the code of some networks has them, by the words of Model.Eager. One without bytes is
	// known by its name alone.
	Forms   map[string]launch `toml:"forms"`
	Repeats bool              `toml:"repeats"`
}

// A launch describes an operation by the bytes per element that each pass reads and writes.
type launch struct {
	F       [2]int64 `toml:"F"`
	I       [2]int64 `toml:"I"`
	W       [2]int64 `toml:"W"`
	Kernels struct {
		F int `toml:"F"`
		I int `toml:"I"`
	} `toml:"kernels"` // of a pass; 0 means 1 if the pass moves something
	Numbers string `toml:"numbers"`
	// Kept lists, if there are several kernels, what they keep for each element, in bytes: the input or a copy of it,
	// and then results in between, such as what is multiplied with the gains of a norm.
	Kept []int `toml:"kept"`
}

// A code is the code of a program that launches kernels. Model.Code may name it.
type code struct {
	Help catalog.Text        `toml:"help"`
	With map[string]launches `toml:"with"` // differences from a set of kernels, by its name
}

// KernelSets lists the catalog's sets of kernels.
func KernelSets() (list []KernelSet) {
	for _, name := range kernelNames() {
		list = append(list, kernelSet(name))
	}
	return list
}

// kernelSet returns a set of kernels by name; "" means KernelsFused.
func kernelSet(name string) KernelSet {
	set, _ := kernelsByName(cmp.Or(name, KernelsFused))
	set.Name = cmp.Or(name, KernelsFused)
	return set
}

var (
	kernelsByName = catalog.ByName[KernelSet]("kernels")
	codesByName   = catalog.ByName[code]("codes")
	// The legal values of Model.Kernels and Model.Code.
	kernelNames = sync.OnceValue(func() []string { return catalog.Names("kernels") })
	codeNames   = sync.OnceValue(func() []string { return catalog.Names("codes") })
)

// kernelHelp describes the sets of kernels.
var kernelHelp = sync.OnceValue(func() string {
	clauses := catalog.Texts("kernels", "help")
	for i, name := range kernelNames() {
		clauses[i] = name + ": " + clauses[i]
	}
	return strings.Join(clauses, ". ")
})

// codeHelp describes the code of programs.
var codeHelp = sync.OnceValue(func() string { return strings.Join(catalog.Texts("codes", "help"), ". ") })

// kernels returns the set of kernels of a model.
func (m Model) kernels() KernelSet { return kernelSet(m.Kernels) }

// UsedKernels returns the kernels of a model or of its preset. The default, also for an invalid model,
// is KernelsFused.
func (m Model) UsedKernels() KernelSet {
	r, err := m.resolve()
	if err != nil {
		return kernelSet(KernelsFused)
	}
	return r.kernels()
}

// UsedAttention returns how a model or its preset computes attention. The default is
// AttentionUnfused.
func (m Model) UsedAttention() string {
	r, err := m.resolve()
	if err != nil {
		return AttentionUnfused
	}
	return cmp.Or(r.Attention, AttentionUnfused)
}

// UsedWindow returns the window of attention and the sequence's length in tokens, or zeros if the
// window is not shorter than the sequence.
func (m Model) UsedWindow() (window, length int) {
	r, err := m.resolve()
	if err != nil || r.Window == 0 || r.Window >= r.SequenceLength {
		return 0, 0
	}
	return r.Window, r.SequenceLength
}

// Transformer reports whether a model has blocks with attention: it names a file, or belongs to a
// family of transformers.
func (m Model) Transformer() bool {
	r, err := m.resolve()
	return err == nil && (r.File != "" || r.transformer())
}

// Dropless reports whether experts take all tokens that choose them, so that the number of tokens of
// an expert is known only when they arrive.
func (m Model) Dropless() bool {
	r, err := m.resolve()
	return err == nil && r.Experts > 0 && r.Capacity == 0
}

// repeated makes the repetition of keys and values for all heads of their group, and the sums of
// their gradients, if the program repeats them.
func (m Model) repeated() []network.Op {
	if !m.between().repeats || m.Heads == m.KVHeads {
		return nil
	}
	s, features := m.SequenceLength, m.HeadDim+m.valueDim() // of a key and a value
	both := moves{forward: traffic(2, 2), input: traffic(2, 2), kernels: 2, inverse: 2}
	repeat := both.op("self_attn.repeat", elements(s, (m.Heads+m.KVHeads)*features)/2)
	// A pass reads what the other writes.
	repeat.Writes = [3]int64{
		network.Forward: elements(s, m.Heads*features), network.InputGradient: elements(s, m.KVHeads*features),
	}
	return []network.Op{repeat.Divided()}
}

// copied makes the copies of queries, keys and values out of the result of one product, if the program
// has one product for all: into three tensors, with keys and values joined and put in order, and back.
func (m Model) copied() []network.Op {
	if !m.between().copies {
		return nil
	}
	s, pair := m.SequenceLength, m.KVHeads*(m.HeadDim+m.valueDim())
	all, keys := elements(s, m.Heads*m.HeadDim+pair), elements(s, pair)
	return []network.Op{{
		Name: "self_attn.copies", Class: network.Elementwise, Elements: all, Sharded: true,
		Moved: [3]int64{2*all + 4*keys, 4*all + 2*keys, 0}, Writes: [3]int64{all + 2*keys, 2*all + keys, 0},
		Launches: [3]int{3, 3, 0},
	}}
}

// keptGates adds what the kernels of a gate over n × f elements keep besides its factors.
func (m Model) keptGates(buffers []network.Buffer, prefix string, n, f int) []network.Buffer {
	for i := range m.between().keptGate {
		buffers = append(buffers, network.Buffer{
			Name: fmt.Sprintf("%sgate.kept%d", prefix, i), Shape: network.Dims{n, f}, Sharded: true,
		})
	}
	return buffers
}

// keptAngles adds the cosines and sines of rotary positions, if every block makes its own.
func (m Model) keptAngles(buffers []network.Buffer) []network.Buffer {
	if !m.eagerly(eagerAngles) {
		return buffers
	}
	return append(buffers, network.Buffer{
		Name: "self_attn.rotary.angles", Shape: network.Dims{m.SequenceLength, 2 * m.HeadDim}, ElementBytes: 4,
		Gathered: true,
	})
}

// keptByRouter adds what a router keeps in fp32 where its kernels are PyTorch's own: probabilities, which are the
// first of the buffers, and in some networks copies of its input and weight. The input is that of the MLP unless
// shared experts keep this in 16 bits. The copy of the weight is one for each microbatch, and counted for each sample.
func (m Model) keptByRouter(buffers []network.Buffer) []network.Buffer {
	if m.between().forms != nil {
		buffers[0].ElementBytes = 4
	}
	if !m.eagerly(eagerRouter) {
		return buffers
	}
	buffers = append(buffers, network.Buffer{
		Name: "mlp.router.weight", Shape: network.Dims{m.Experts, m.Hidden}, ElementBytes: 4, Gathered: true,
	})
	if m.SharedExperts > 0 {
		buffers = append(buffers, network.Buffer{
			Name: "mlp.router.input", Shape: network.Dims{m.SequenceLength, m.Hidden}, ElementBytes: 4, Gathered: true,
		})
	}
	return buffers
}
