package training

import (
	"slices"

	"psim/costmodel/network"
)

// The values of Options.Backward: how a stage runs its backward.
const (
	// BackwardWhole is one backward through all layers of the stage.
	BackwardWhole = "whole"
	// BackwardPerLayer is one backward for every layer, which frees what the layer kept.
	BackwardPerLayer = "per-layer"
	// BackwardTwoPass is two backwards for every layer, as in a program that calls
	// torch.autograd.grad for the gradients of the layer's parameters, and again for the
	// gradient of its input. Each walks the layer from its output: the first makes all
	// weight gradients and every gradient on the way to them; the second makes the latter
	// again and continues to the input. What the layer kept is freed only after the second
	// (retain_graph). The network's own input has a gradient as well, since the program asks
	// every layer for one.
	BackwardTwoPass = "two-pass"
)

// The values of Options.Split: how a backward is split into I and W.
const (
	// SplitLayer splits the backward of every layer, as Zero Bubble's own program does. The I of the
	// first stage makes the gradients of its layers' inputs, those of the network's input aside.
	SplitLayer = "layer"
	// SplitStage leaves the backward of the first stage whole, since no stage waits for its I. PyTorch
	// does so: stage_backward_input is skipped where a stage is the first, and W calls backward
	// (torch/distributed/pipelining/stage.py).
	SplitStage = "stage"
)

// PerLayer reports whether every layer has a backward of its own.
func (t Options) PerLayer() bool { return t.Backward == BackwardPerLayer || t.TwoPass() }

// TwoPass reports whether every layer has two backwards.
func (t Options) TwoPass() bool { return t.Backward == BackwardTwoPass }

// Trained returns a network as it is trained: with the operands and buffers of the precision, and what is kept in
// 8 bits, and with BackwardTwoPass a gradient of the network's input.
func (t Options) Trained(n network.Network) network.Network {
	n = t.keptNarrow(t.narrowed(n))
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
