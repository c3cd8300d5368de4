package training

import (
	"slices"
	"strings"

	"psim/costmodel/network"
)

// The parts of Options.Keep8Bit: of a block, what waits in 8 bits for the backward.
const (
	keepActivation = "activation" // inputs of a dense MLP's activation function and of its gate
	keepAttention  = "attention"  // what fused attention reads and its result
	keepNone       = "none"
)

// keeps8 reports whether a part of a block is kept in 8 bits.
func (t Options) keeps8(part string) bool {
	return slices.Contains(strings.Split(t.Keep8Bit, ","), part)
}

// KeepsAttention8 reports whether what fused attention reads waits in 8 bits for the backward.
func (t Options) KeepsAttention8() bool { return t.keeps8(keepAttention) }

// keptNarrow returns a network that keeps parts of its blocks in 8 bits.
func (t Options) keptNarrow(n network.Network) network.Network {
	if t.Keep8Bit == "" || t.Keep8Bit == keepNone {
		return n
	}
	whole := n.Layers
	n.Layers = slices.Clone(whole)
	made := map[*network.Op]int{} // as in narrowed
	for i := range n.Layers {
		l := &n.Layers[i]
		if !l.IsBlock() || l.ForwardOnly || len(l.Ops) == 0 {
			continue
		}
		if at, ok := made[&l.Ops[0]]; ok && whole[i].Shares(whole[at]) {
			l.Ops, l.Buffers = n.Layers[at].Ops, n.Layers[at].Buffers
			continue
		}
		made[&l.Ops[0]] = i
		l.Buffers = slices.Clone(l.Buffers)
		if t.keeps8(keepActivation) {
			storeActivation(l)
		}
		if t.keeps8(keepAttention) {
			attentionIn8Bits(l)
		}
	}
	return n
}

// storeActivation keeps in 8 bits what the activation function of a dense MLP and its gate read. A kernel makes the
// copy, and before the backward another one makes it wide (Megatron-LM, activation_func_fp8_input_store).
func storeActivation(l *network.Layer) {
	var n int64
	for i := range l.Buffers {
		b := &l.Buffers[i]
		reads := strings.HasSuffix(b.Name, ".input") || strings.HasSuffix(b.Name, "up_proj.output")
		if reads && b.Modules&network.DenseMLP != 0 && b.Lifetime == network.ForwardToInput && b.ElementBytes == 0 {
			b.ElementBytes = 1
			n += b.Shape.Elements()
		}
	}
	at := slices.IndexFunc(l.Ops, func(o network.Op) bool {
		return o.Modules&network.DenseMLP != 0 && o.Class == network.Elementwise && o.Moved[network.InputGradient] > 0
	})
	if n == 0 || at < 0 {
		return
	}
	l.Ops = slices.Insert(slices.Clone(l.Ops), at, network.Op{
		Name: l.Ops[at].Name + ".store", Class: network.Elementwise, Elements: n, Modules: network.DenseMLP,
		Moved:  [3]int64{network.Forward: n + n/2, network.InputGradient: n/2 + n}, // in 16 bits each
		Writes: [3]int64{network.Forward: n / 2, network.InputGradient: n},
	})
}

// attentionIn8Bits keeps in 8 bits what fused attention reads in its backward: queries, keys, values and its result
// (Transformer Engine, fp8_dpa with a backward in 8 bits). A result that stays wide for W has a copy.
func attentionIn8Bits(l *network.Layer) {
	if !slices.ContainsFunc(l.Ops, func(o network.Op) bool { return o.Class == network.Attention }) {
		return
	}
	for i := range l.Buffers {
		b := &l.Buffers[i]
		_, last, _ := strings.Cut(b.Name, ".")
		read := last == "q" || last == "k" || last == "v" || last == "context"
		if read && b.Lifetime == network.ForwardToInput && b.ElementBytes == 0 {
			b.ElementBytes = 1
			continue
		}
		if last == "context" && b.Lifetime == network.ForwardToWeight && b.ElementBytes == 0 {
			narrow := *b
			narrow.Name, narrow.Lifetime, narrow.ElementBytes = b.Name+".narrow", network.ForwardToInput, 1
			l.Buffers = append(l.Buffers, narrow)
		}
	}
}
