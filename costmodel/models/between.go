package models

import (
	"psim/costmodel/network"
)

// traffic makes what a pass reads and writes, in bytes per element.
func traffic(read, written int64) network.Traffic {
	return network.Traffic{Read: read, Written: written}
}

// A moves is what an operation between products reads, writes and launches: traffic of F and
// of I, kernels, and what the numbers are.
type moves struct {
	forward, input   network.Traffic
	kernels, inverse int // of F and of I; 0 means 1 where something is moved
	numbers          network.Numbers
}

// op makes it for n elements.
func (v moves) op(name string, n int64) network.Op {
	op := network.NewElementwise(name, n, v.forward, v.input)
	op.Launches = [3]int{network.Forward: v.kernels, network.InputGradient: v.inverse}
	op.Numbers = v.numbers
	return op
}

// A between is what a set of kernels has for each operation between products.
type between struct {
	norm, residual, activation, gate, rotary, loss moves
	split                                          moves           // of queries, keys and values that one product made
	gradient                                       network.Traffic // of W for one element of a weight, in a kernel of its own
	sums                                           network.Numbers // that this kernel adds up
}

// The steps of eager PyTorch, added up kernel by kernel; a copy or a multiplication by what
// is small reads a number and writes one.
var (
	// Rotary positions of queries and of keys: a product with cosines, half of the numbers
	// negated, both halves joined, a product with sines and a sum; I likewise.
	eagerRotary = moves{forward: traffic(11, 9), input: traffic(11, 9), kernels: 10, inverse: 10}
	// Complex numbers: to fp32, a product and back.
	complexRotary = moves{forward: traffic(10, 10), input: traffic(10, 10), kernels: 6, inverse: 6, numbers: network.Mixed}
	// RMSNorm: to fp32, squares, their mean, a product with its root, back, and one with the
	// gains; I the reverse, in which the input has two gradients that are added.
	eagerRMSNorm = moves{forward: traffic(20, 16), input: traffic(50, 34), kernels: 8, inverse: 14, numbers: network.Mixed}
	// The loss: to fp32, logarithms of probabilities and those of the targets; I fills zeros
	// with these, and goes back through both.
	eagerLoss = moves{forward: traffic(6, 8), input: traffic(12, 10), kernels: 3, inverse: 3, numbers: network.Mixed}
)

// between tells what the model's kernels move, counted from what every one of them has to
// read and write: docs/kernels.md says it operation by operation.
func (m Model) between() between {
	b := between{
		norm: moves{forward: traffic(2, 2), input: traffic(8, 2)}, residual: moves{forward: traffic(4, 2), input: traffic(4, 2)},
		activation: moves{forward: traffic(2, 2), input: traffic(4, 2)}, gate: moves{forward: traffic(4, 2), input: traffic(6, 4)},
		rotary: moves{forward: traffic(2, 2), input: traffic(2, 2)}, loss: moves{forward: traffic(2, 2), input: traffic(2, 2)},
	}
	switch m.Kernels {
	case KernelsEager:
		m.eager(&b)
	case KernelsCompiled: // what is summed or multiplied is in registers already
		b.residual = moves{forward: traffic(2, 2), input: traffic(2, 0)}
		b.norm.inverse = 2
		b.gate = moves{forward: traffic(2, 0), input: traffic(2, 2)}
		b.loss = eagerLoss
		b.gradient = traffic(4, 2)
	case KernelsMegatron:
		b.norm.input = traffic(4, 2)
		if m.Code == CodeMegatron2021 {
			b.norm.input, b.gradient = traffic(8, 2), traffic(4, 2)
		}
	case KernelsTE: // the loss: to fp32, maximum, difference, exponentials with their sum
		b.norm.inverse = 2
		b.gate = moves{forward: traffic(2, 0), input: traffic(2, 2)}
		b.loss = moves{forward: traffic(14, 12), input: traffic(8, 6), kernels: 4, inverse: 2, numbers: network.Mixed}
	}
	if m.torchtitan() {
		b.rotary = complexRotary
	}
	return b
}

// eager sets what eager PyTorch has: gradients of weights are added up in fp32.
func (m Model) eager(b *between) {
	b.norm.inverse = 2
	b.gate = moves{forward: traffic(4, 2), input: traffic(8, 4), inverse: 2}
	b.rotary, b.loss = eagerRotary, eagerLoss
	switch {
	case m.Code == CodeNanotron: // both gradients of the gate are joined
		b.gate, b.rotary = moves{forward: traffic(4, 2), input: traffic(12, 8), inverse: 3}, moves{forward: traffic(2, 2), input: traffic(2, 2)}
	case m.rms():
		b.norm = eagerRMSNorm
	}
	b.split = moves{forward: traffic(2, 2), input: traffic(2, 2), kernels: 3}
	b.gradient, b.sums = traffic(6, 4), network.Mixed
}

// In the counts below, elements are of 16 bits, and one in fp32 is two.

// softmax of all heads over the whole square, and what runs around it where there
// is no fused kernel: conversions read one element and write two, or the reverse,
// and the others read and write two.
func (m Model) softmax(name string) []network.Op {
	n := elements(m.Heads, m.SequenceLength, m.SequenceLength)
	fused := network.NewElementwise(name, n, traffic(2, 2), traffic(4, 2))
	if !m.megatron() {
		return []network.Op{fused}
	}
	fused.Moved = [3]int64{3 * n / 2, 2 * n, 0}
	step := func(step string, forward, input network.Traffic, numbers network.Numbers) network.Op {
		op := network.NewElementwise(name+"."+step, n, forward, input)
		op.Count, op.UnlessMultiple, op.Numbers = int64(m.Heads), 4, numbers
		return op
	}
	narrow, same, wide := traffic(4, 2), traffic(4, 4), traffic(2, 4)
	return []network.Op{
		step("to_fp32", wide, narrow, network.Mixed), step("scale", same, same, network.FP32), step("mask", same, same, network.FP32), fused,
		step("to_fp16", narrow, wide, network.Mixed),
	}
}

// apart makes an operation on s × n elements that other frameworks have in the
// product beside it.
func (m Model) apart(name string, n int, forward, input network.Traffic) []network.Op {
	if !m.megatron() {
		return nil
	}
	return []network.Op{network.NewElementwise(name, elements(m.SequenceLength, n), forward, input).Divided()}
}

// summed has the first operation after a product read the gradient of its bias in W, where
// that is summed in a kernel of its own.
func (m Model) summed(ops []network.Op) []network.Op {
	if m.megatron() && len(ops) > 0 {
		ops[0].Moved[network.WeightGradient] = ops[0].Elements
	}
	return ops
}

// loss returns the cross-entropy over the vocabulary. Megatron's goes over the logits
// for their maximum and to subtract it, for exponentials and their sum, and to
// divide by that; I multiplies the result, and converts it back.
func (m Model) loss() []network.Op {
	n := elements(m.SequenceLength, m.Vocab)
	loss := m.between().loss.op("loss", n)
	ops := []network.Op{loss}
	if m.megatron() {
		step := func(name string, forward, input network.Traffic, numbers network.Numbers) network.Op {
			return moves{forward: forward, input: input, numbers: numbers}.op(name, n)
		}
		ops = []network.Op{
			step("loss.to_fp32", traffic(2, 4), traffic(4, 2), network.Mixed), step("loss.max", traffic(4, 0), traffic(0, 0), network.FP32),
			step("loss.subtract", traffic(4, 4), traffic(0, 0), network.FP32), step("loss.exp", traffic(4, 4), traffic(0, 0), network.FP32),
			step("loss.sum", traffic(4, 0), traffic(0, 0), network.FP32), step("loss", traffic(4, 4), traffic(4, 4), network.FP32),
		}
	}
	last := &ops[len(ops)-1]
	last.Function, last.Rows = network.CrossEntropy, int64(m.SequenceLength)
	for i := range ops {
		ops[i].Sharded = true
	}
	return ops
}

// dropoutAdd makes a dropout and the sum of its result and the residual stream. What
// one kernel does in F writes the mask and no result of the dropout.
func (m Model) dropoutAdd(dropout, sum string) []network.Op {
	s, h := m.SequenceLength, m.Hidden
	ops := append(m.dropout(dropout, s, h), m.residual(sum, s, h))
	if m.megatron() && len(ops) == 2 {
		ops[0].Moved[network.Forward], ops[0].Mask[network.Forward] = 0, 0
		ops[1].Mask[network.Forward] = elements(s, h)
	}
	return m.summed(ops)
}
