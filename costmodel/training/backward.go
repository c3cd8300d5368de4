package training

import (
	"slices"

	"psim/costmodel/network"
)

// The legal values of Training.Backward: how a stage takes its backward.
const (
	// BackwardWhole is one backward through all of its layers.
	BackwardWhole = "whole"
	// BackwardPerLayer has a backward for every layer, which frees what that kept.
	BackwardPerLayer = "per-layer"
	// BackwardTwoPass has two for every layer, as a program makes them that calls
	// torch.autograd.grad for the gradients of the layer's parameters and again for that
	// of its input. Each walks the layer from its output: the first makes all weight
	// gradients and every gradient on the way to them, the second makes these again and
	// goes on to the input. Nothing that the layer kept is freed in between
	// (retain_graph). The network's own input has a gradient as well, since every layer
	// is asked for one.
	BackwardTwoPass = "two-pass"
)

// PerLayer reports whether every layer has a backward of its own.
func (t Options) PerLayer() bool { return t.Backward == BackwardPerLayer || t.TwoPass() }

// TwoPass reports whether every layer has two.
func (t Options) TwoPass() bool { return t.Backward == BackwardTwoPass }

// Asked returns a network as it is trained: in the precision, and with layers that make the
// gradients that a backward asks them for, with BackwardTwoPass that of the network's input,
// too.
func (t Options) Trained(n network.Network) network.Network {
	n = t.narrowed(n)
	if !t.TwoPass() {
		return n
	}
	n.Layers = slices.Clone(n.Layers)
	for i := range n.Layers {
		l := &n.Layers[i]
		l.Ops = slices.Clone(l.Ops)
		for k := range l.Ops {
			l.Ops[k].NoInputGradient = false
		}
	}
	return n
}
