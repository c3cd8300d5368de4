package models

import (
	"cmp"
	"sync"

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

// A between has what a set of kernels launches for each operation between products, with a
// program's code.
type between struct {
	norm, residual, activation, gate, rotary, loss, split moves

	rmsNorm  *moves          // nil: as norm
	gradient network.Traffic // of W for one element of a weight, in a kernel of its own
	sums     network.Numbers // that this kernel adds up
	copies   bool
	repeats  bool
}

// betweens has them by the names of sets of kernels and of programs, made when they are first
// asked for.
var betweens = sync.OnceValue(func() map[[2]string]func() between {
	all := map[[2]string]func() between{}
	for _, kernels := range kernelNames() {
		for _, program := range append([]string{""}, codeNames()...) {
			all[[2]string{kernels, program}] = sync.OnceValue(func() between { return newBetween(kernels, program) })
		}
	}
	return all
})

// newBetween changes what fused kernels have by what others have, and that by a program's code.
func newBetween(kernels, program string) (b between) {
	b.change(kernelSet(KernelsFused).Between)
	b.change(kernelSet(kernels).Between)
	code, _ := codesByName(program)
	b.change(code.With[kernels])
	return b
}

// change puts in what is given.
func (b *between) change(given launches) {
	for _, one := range []struct {
		to   *moves
		from *launch
	}{
		{&b.norm, given.Norm}, {&b.residual, given.Residual}, {&b.activation, given.Activation}, {&b.gate, given.Gate},
		{&b.rotary, given.Rotary}, {&b.loss, given.Loss}, {&b.split, given.Split},
	} {
		if one.from != nil {
			*one.to = one.from.moves()
		}
	}
	if given.RMSNorm != nil {
		norm := given.RMSNorm.moves()
		b.rmsNorm = &norm
	}
	if g := given.Gradient; g != nil {
		b.gradient, b.sums = traffic(g.W[0], g.W[1]), g.numbers()
	}
	b.copies, b.repeats = b.copies || given.Copies, b.repeats || given.Repeats
}

// moves returns what an operation moves.
func (l launch) moves() moves {
	return moves{
		forward: traffic(l.F[0], l.F[1]), input: traffic(l.I[0], l.I[1]),
		kernels: l.Kernels.F, inverse: l.Kernels.I, numbers: l.numbers(),
	}
}

// numbers returns what the numbers of an operation are.
func (l launch) numbers() network.Numbers {
	if l.Numbers == "mixed" {
		return network.Mixed
	}
	return network.Narrow
}

// between returns what the model's kernels move, counted from what every one of them has to
// read and write: docs/kernels.md says it operation by operation.
func (m Model) between() between {
	b := betweens()[[2]string{cmp.Or(m.Kernels, KernelsFused), m.Code}]()
	if b.rmsNorm != nil && m.rms() {
		b.norm = *b.rmsNorm
	}
	return b
}

// rms reports whether norms are RMSNorm.
func (m Model) rms() bool { return m.Family == FamilyLlama || m.Family == FamilyMixtral }

// In the counts below, elements are of 16 bits, and one in fp32 is two.

// softmax of all heads over the whole square, and what runs around it where there
// is no fused kernel: conversions read one element and write two, or the reverse,
// and the others read and write two.
func (m Model) softmax(name string) []network.Op {
	n := elements(m.Heads, m.SequenceLength, m.SequenceLength)
	fused := network.NewElementwise(name, n, traffic(2, 2), traffic(4, 2))
	if !m.kernels().MaskedSoftmax {
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
		step("to_fp32", wide, narrow, network.Mixed), step("scale", same, same, network.FP32),
		step("mask", same, same, network.FP32), fused,
		step("to_fp16", narrow, wide, network.Mixed),
	}
}

// apart makes an operation on s × n elements that other frameworks have in the
// product beside it.
func (m Model) apart(name string, n int, forward, input network.Traffic) []network.Op {
	if !m.kernels().SeparateBias {
		return nil
	}
	return []network.Op{network.NewElementwise(name, elements(m.SequenceLength, n), forward, input).Divided()}
}

// summed has the first operation after a product read the gradient of its bias in W, where
// that is summed in a kernel of its own.
func (m Model) summed(ops []network.Op) []network.Op {
	if m.kernels().SeparateBias && len(ops) > 0 {
		ops[0].Moved[network.WeightGradient] = ops[0].Elements
	}
	return ops
}

// loss returns the cross-entropy over the vocabulary. Step by step it goes over the logits
// for their maximum and to subtract it, for exponentials and their sum, and to
// divide by that; I multiplies the result, and converts it back.
func (m Model) loss() []network.Op {
	n := elements(m.SequenceLength, m.Vocab)
	loss := m.between().loss.op("loss", n)
	ops := []network.Op{loss}
	if m.kernels().StepwiseLoss {
		step := func(name string, forward, input network.Traffic, numbers network.Numbers) network.Op {
			return moves{forward: forward, input: input, numbers: numbers}.op(name, n)
		}
		ops = []network.Op{
			step("loss.to_fp32", traffic(2, 4), traffic(4, 2), network.Mixed),
			step("loss.max", traffic(4, 0), traffic(0, 0), network.FP32),
			step("loss.subtract", traffic(4, 4), traffic(0, 0), network.FP32),
			step("loss.exp", traffic(4, 4), traffic(0, 0), network.FP32),
			step("loss.sum", traffic(4, 0), traffic(0, 0), network.FP32),
			step("loss", traffic(4, 4), traffic(4, 4), network.FP32),
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
	if m.kernels().DropoutSum && len(ops) == 2 {
		ops[0].Moved[network.Forward], ops[0].Mask[network.Forward] = 0, 0
		ops[1].Mask[network.Forward] = elements(s, h)
	}
	return m.summed(ops)
}
