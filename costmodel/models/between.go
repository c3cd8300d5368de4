package models

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"psim/costmodel/network"
)

// traffic holds the bytes per element that a pass reads and writes.
func traffic(read, written int64) network.Traffic {
	return network.Traffic{Read: read, Written: written}
}

// A moves describes an operation between products: its traffic in F and in I, its kernels, and its
// kind of numbers.
type moves struct {
	forward, input   network.Traffic
	kernels, inverse int // of F and of I; 0 means 1 where something is moved
	numbers          network.Numbers
}

// op makes the operation for n elements.
func (v moves) op(name string, n int64) network.Op {
	op := network.NewElementwise(name, n, v.forward, v.input)
	op.Launches = [3]int{network.Forward: v.kernels, network.InputGradient: v.inverse}
	op.Numbers = v.numbers
	return op
}

// A between describes each operation between products, for a set of kernels and the code of a
// program.
type between struct {
	norm, residual, activation, gate, rotary, loss, split moves

	rmsNorm *moves // nil: as norm
	forms   map[string]launch
	// What the kernels of a norm, of an activation function and of a gate keep (launch.Kept).
	keptNorm, keptActivation, keptGate []int
	gradient                           network.Traffic // of W for one element of a weight, in a kernel of its own
	sums                               network.Numbers // the numbers that this kernel adds up
	copies                             bool
	repeats                            bool
}

// betweens holds them by the names of the set of kernels and of the program. Each is made when it is
// first needed.
var betweens = sync.OnceValue(func() map[[2]string]func() between {
	all := map[[2]string]func() between{}
	for _, kernels := range kernelNames() {
		for _, program := range append([]string{""}, codeNames()...) {
			all[[2]string{kernels, program}] = sync.OnceValue(func() between { return newBetween(kernels, program) })
		}
	}
	return all
})

// newBetween starts with fused kernels, and applies the changes of a set of kernels and then those
// of a program's code.
func newBetween(kernels, program string) (b between) {
	b.change(kernelSet(KernelsFused).Between)
	b.change(kernelSet(kernels).Between)
	code, _ := codesByName(program)
	b.change(code.With[kernels])
	return b
}

// change replaces the operations that are given.
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
		b.rmsNorm, b.keptNorm = &norm, given.RMSNorm.Kept
		b.forms = nil // of other norms
	}
	if given.Forms != nil {
		b.forms = given.Forms
	}
	if g := given.Gradient; g != nil {
		b.gradient, b.sums = traffic(g.W[0], g.W[1]), g.numbers()
	}
	b.copies, b.repeats = b.copies || given.Copies, b.repeats || given.Repeats
}

// moves returns the moves of an operation of the catalog.
func (l launch) moves() moves {
	return moves{
		forward: traffic(l.F[0], l.F[1]), input: traffic(l.I[0], l.I[1]),
		kernels: l.Kernels.F, inverse: l.Kernels.I, numbers: l.numbers(),
	}
}

// numbers returns the kind of an operation's numbers.
func (l launch) numbers() network.Numbers {
	if l.Numbers == "mixed" {
		return network.Mixed
	}
	return network.Narrow
}

// between returns the operations between products of the model's kernels. docs/kernels.md has the
// bytes that each operation reads and writes.
func (m Model) between() between {
	b := betweens()[[2]string{cmp.Or(m.Kernels, KernelsFused), m.Code}]()
	if m.Norm != NormRMS {
		b.keptNorm = nil
	} else if b.rmsNorm != nil {
		b.norm = *b.rmsNorm
	}
	for _, word := range m.eagerWords() {
		switch form := b.forms[word]; {
		case len(form.Kept) == 0:
		case word == eagerGELU:
			b.activation, b.keptActivation = form.moves(), form.Kept
		case word == eagerClamped || word == eagerLimited:
			b.gate, b.keptGate = form.moves(), form.Kept
		default:
			b.norm, b.keptNorm = form.moves(), form.Kept
		}
	}
	return b
}

// In the counts below, elements have 16 bits, and a number in fp32 counts as two.

// softmax makes the softmax of all heads over the whole square. Without a fused kernel there are
// further kernels before and after it: conversions read one element and write two, or the reverse,
// and the others read and write two.
func (m Model) softmax(name string) []network.Op {
	n := elements(m.Heads, m.SequenceLength, int(m.keys()))
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

// separate makes an operation on s × n elements, if the model's kernels do not do it as part of a
// product.
func (m Model) separate(name string, n int, forward, input network.Traffic) []network.Op {
	if !m.kernels().SeparateBias {
		return nil
	}
	return []network.Op{network.NewElementwise(name, elements(m.SequenceLength, n), forward, input).Divided()}
}

// summed makes the first operation after a product read its gradient in W, if the gradient of the
// product's bias is summed in a kernel of its own.
func (m Model) summed(ops []network.Op) []network.Op {
	if m.kernels().SeparateBias && len(ops) > 0 {
		ops[0].Moved[network.WeightGradient] = ops[0].Elements
	}
	return ops
}

// loss makes the cross-entropy over the vocabulary. A stepwise loss goes over the logits for their
// maximum, to subtract it, for exponentials, for their sum, and to divide by the sum; I multiplies
// the result and converts it back.
func (m Model) loss() []network.Op {
	n := elements(m.SequenceLength, m.Vocab)
	moved := m.between().loss
	switch {
	case m.Loss == LossFused: // read twice, first for the largest and the sum, and replaced by the gradient
		moved = moves{forward: traffic(4, 2), input: traffic(0, 0)}
	case m.FP32Logits && m.chunks() == 1: // a copy and logarithms; I zeros, back through both, and to 16 bits
		moved = moves{
			forward: traffic(2+4, 4+4), input: traffic(4+4+4, 4+4+2), kernels: 3, inverse: 3, numbers: network.Mixed,
		}
	}
	ops := []network.Op{moved.op("loss", n)}
	if m.kernels().StepwiseLoss && m.Loss != LossFused {
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

// summedIf does what summed does after a product with a bias, and nothing after others.
func (m Model) summedIf(bias bool, ops []network.Op) []network.Op {
	if !bias {
		return ops
	}
	return m.summed(ops)
}

// dropoutAdd makes a dropout and the sum of its result and the residual stream. If one kernel does
// both in F, it writes the mask but not the dropout's result.
func (m Model) dropoutAdd(dropout, sum string) []network.Op {
	s, h := m.SequenceLength, m.Hidden
	ops := append(m.dropout(dropout, s, h), m.residual(sum, s, h))
	if m.kernels().DropoutSum && len(ops) == 2 {
		ops[0].Moved[network.Forward], ops[0].Mask[network.Forward] = 0, 0
		ops[1].Mask[network.Forward] = elements(s, h)
	}
	return ops
}

// Words of Model.Eager that are not of norms.
const (
	eagerGELU   = "stepwise_gelu"
	eagerJoint  = "joint_qkv"
	eagerRouter = "fp32_router"
	eagerWide   = "fp32_softmax"
	eagerAngles = "rotary_angles"

	eagerClamped = "clamped_gate"
	eagerLimited = "limited_gate"
)

// eagerWords lists how the code of a network differs where kernels are PyTorch's own.
func (m Model) eagerWords() []string {
	if m.Eager == "" {
		return nil
	}
	return strings.Split(m.Eager, ",")
}

// eagerly reports whether a form is the model's, and matters to its kernels.
func (m Model) eagerly(form string) bool {
	_, known := m.between().forms[form]
	return known && slices.Contains(m.eagerWords(), form)
}

// checkEager requires words of the catalog.
func (m Model) checkEager() error {
	forms := kernelSet("eager").Between.Forms
	for _, word := range m.eagerWords() {
		if _, known := forms[word]; !known {
			return fmt.Errorf("eager = %q: %q is not known; must be of %s, with commas between", m.Eager, word,
				strings.Join(slices.Sorted(maps.Keys(forms)), ", "))
		}
	}
	return nil
}

// withKept sets what norms and activation functions keep where they are made of several kernels, such as a copy of
// the input in fp32. Layers that share buffers go on sharing them.
func (m Model) withKept(n network.Network) network.Network {
	b := m.between()
	if b.keptNorm == nil && b.keptActivation == nil {
		return n
	}
	made := map[*network.Buffer][]network.Buffer{}
	for i := range n.Layers {
		list := n.Layers[i].Buffers
		if len(list) == 0 {
			continue
		}
		if made[&list[0]] == nil {
			made[&list[0]] = m.kept(list, b)
		}
		n.Layers[i].Buffers = made[&list[0]]
	}
	return n
}

// kept returns buffers with what is kept besides inputs.
func (m Model) kept(list []network.Buffer, b between) (kept []network.Buffer) {
	for _, buffer := range list {
		var bytes []int
		name, isInput := strings.CutSuffix(buffer.Name, ".input")
		switch {
		case !isInput:
		case isNorm(name) && m.gainless(name):
			bytes = b.keptNorm[:min(1, len(b.keptNorm))]
		case isNorm(name):
			bytes = b.keptNorm
		case strings.HasSuffix(name, "."+m.Activation):
			bytes = b.keptActivation
		}
		for i, n := range slices.Backward(bytes) {
			one := buffer
			if n != 2 {
				one.ElementBytes = n
			}
			if i > 0 {
				one.Name = fmt.Sprintf("%s.kept%d", name, i)
			}
			if i > 0 && isNorm(name) {
				one.Lifetime = network.ForwardToWeight
			}
			kept = append(kept, one)
		}
		if bytes == nil {
			kept = append(kept, buffer)
		}
	}
	return kept
}

// gainless reports whether a norm of heads has no gains.
func (m Model) gainless(name string) bool {
	if m.PlainQKNorm && strings.HasPrefix(name, "self_attn.") {
		return true
	}
	return strings.HasSuffix(name, ".v_norm") || name == routerNorm
}

// isNorm reports whether an operation of a block is one of its norms. Indexers have others.
func isNorm(name string) bool {
	short := strings.TrimRight(name[strings.LastIndexByte(name, '.')+1:], "_12")
	return (strings.HasSuffix(short, "norm") || strings.HasPrefix(short, "ln_")) && !strings.HasPrefix(name, indexer)
}
