package models

import (
	"cmp"
	"strings"
	"sync"

	"psim/configs/catalog"
	"psim/costmodel/network"
)

// KernelsFused names the set of kernels of which every operation between products is one: the
// default, and what other sets of the catalog differ from.
const KernelsFused = "fused"

// A KernelSet is what Model.Kernels may name: which kernels the parts of a transformer between
// its products are. Times and what is kept follow from it.
type KernelSet struct {
	Name    string `toml:"-"`
	Summary string `toml:"summary"`
	// Help says in psim help config what it is.
	Help catalog.Text `toml:"help"`
	// Sets are lines of TOML: what a host takes to launch a kernel; Source is where that is
	// from.
	Sets   []string     `toml:"sets"`
	Source catalog.Text `toml:"source"`

	// UnfusedAttention: attention is not fused unless a model says so.
	UnfusedAttention bool `toml:"unfused_attention"`
	// MaskedSoftmax: the softmax reads what the causal mask leaves, for four matrices of
	// attention at a time; where samples × heads of a device are no multiple of four,
	// PyTorch's own kernels follow each other instead.
	MaskedSoftmax bool `toml:"masked_softmax"`
	// SeparateBias: the bias of queries, keys and values has a kernel of its own, the gradient
	// of every bias is summed in one, and the context is copied into order.
	SeparateBias bool `toml:"separate_bias"`
	// DropoutSum: dropout and the sum after it are one kernel in F.
	DropoutSum bool `toml:"dropout_sum"`
	// StepwiseLoss: the loss is a kernel for every step over logits in fp32.
	StepwiseLoss bool `toml:"stepwise_loss"`
	// AddsGradients: products add gradients of weights to those of earlier microbatches.
	AddsGradients bool `toml:"adds_gradients"`
	// FusedGate: an activation function and its gate are one kernel, which keeps what both
	// read.
	FusedGate bool `toml:"fused_gate"`
	// Router counts the kernels that choose the experts of a token and prepare its dispatch,
	// besides the router's product and the copies of tokens; 0 is one.
	Router int `toml:"router"`
	// ExpertByExpert: each expert has products of its own, both before the function joined;
	// biases are added and bounds kept in kernels of their own, and a token's weights are
	// multiplied with what the function returns.
	ExpertByExpert bool `toml:"expert_by_expert"`

	Between launches `toml:"between"`
}

// launches lists the operations between products of a set of kernels, or what a program's code
// changes of them; nil leaves one as it is.
type launches struct {
	Norm       *launch `toml:"norm"`
	RMSNorm    *launch `toml:"rms_norm"` // where PyTorch has had no kernel for it
	Residual   *launch `toml:"residual"`
	Activation *launch `toml:"activation"`
	Gate       *launch `toml:"gate"`
	Rotary     *launch `toml:"rotary"`
	Loss       *launch `toml:"loss"`
	Split      *launch `toml:"split"`    // of queries, keys and values that one product made
	Gradient   *launch `toml:"gradient"` // of a weight, in a kernel of its own
	// Copies of queries, keys and values out of the result of one product; keys and values
	// repeated for all heads of their group.
	Copies  bool `toml:"copies"`
	Repeats bool `toml:"repeats"`
}

// A launch is what an operation moves: bytes of an element read and written by a pass.
type launch struct {
	F       [2]int64 `toml:"F"`
	I       [2]int64 `toml:"I"`
	W       [2]int64 `toml:"W"`
	Kernels struct {
		F int `toml:"F"`
		I int `toml:"I"`
	} `toml:"kernels"` // of a pass; 0 means 1 where something is moved
	Numbers string `toml:"numbers"`
}

// A code is what Model.Code may name: whose code launches the kernels.
type code struct {
	Help catalog.Text        `toml:"help"`
	With map[string]launches `toml:"with"` // what differs from a set of kernels, by its name
}

// KernelSets lists the catalog's sets of kernels.
func KernelSets() (list []KernelSet) {
	for _, name := range kernelNames() {
		list = append(list, kernelSet(name))
	}
	return list
}

// kernelSet returns a set of kernels; no name is KernelsFused.
func kernelSet(name string) KernelSet {
	set, _ := kernelsByName(cmp.Or(name, KernelsFused))
	set.Name = cmp.Or(name, KernelsFused)
	return set
}

var (
	kernelsByName = catalog.ByName[KernelSet]("kernels")
	codesByName   = catalog.ByName[code]("codes")
	// What Model.Kernels and Model.Code may name.
	kernelNames = sync.OnceValue(func() []string { return catalog.Names("kernels") })
	codeNames   = sync.OnceValue(func() []string { return catalog.Names("codes") })
)

// kernelHelp says what the sets of kernels are.
var kernelHelp = sync.OnceValue(func() string {
	clauses := catalog.Texts("kernels", "help")
	for i, name := range kernelNames() {
		clauses[i] = name + ": " + clauses[i]
	}
	return strings.Join(clauses, ". ")
})

// codeHelp says what the programs' code does.
var codeHelp = sync.OnceValue(func() string { return strings.Join(catalog.Texts("codes", "help"), ". ") })

// kernels returns the set of kernels of a model.
func (m Model) kernels() KernelSet { return kernelSet(m.Kernels) }

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

// repeated makes the repetition of keys and values for all heads of their group, and the
// sums of their gradients, where the program repeats them.
func (m Model) repeated(s, q, kv int) []network.Op {
	if !m.between().repeats || q == kv {
		return nil
	}
	both := moves{forward: traffic(2, 2), input: traffic(2, 2), kernels: 2, inverse: 2}
	repeat := both.op("self_attn.repeat", elements(s, q+kv))
	// Reads the reverse.
	repeat.Writes = [3]int64{network.Forward: elements(s, 2*q), network.InputGradient: elements(s, 2*kv)}
	return []network.Op{repeat.Divided()}
}

// copied makes the copies of queries, keys and values out of the result of one product, where
// the program has one: into three tensors, keys and values joined and put in order; and back.
func (m Model) copied(s, q, kv int) []network.Op {
	if !m.between().copies {
		return nil
	}
	all, keys := elements(s, q+2*kv), elements(s, 2*kv)
	return []network.Op{{
		Name: "self_attn.copies", Class: network.Elementwise, Elements: all, Sharded: true,
		Moved: [3]int64{2*all + 4*keys, 4*all + 2*keys, 0}, Writes: [3]int64{all + 2*keys, 2*all + keys, 0},
		Launches: [3]int{3, 3, 0},
	}}
}
