package models

import (
	"cmp"
	"errors"
	"fmt"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// Context parallelism cuts every sequence into parts, which are independent everywhere except in the
// core of attention. Under a causal mask the first tokens attend to few others and the last to many.
// A sequence is therefore cut into twice as many chunks as there are parts, and part r has the r-th
// chunk from both ends, so that all parts compute equally many pairs.

// inParts builds the network of a device that computes one of the parts into which a group cuts
// sequences.
func (d *Divider) inParts(g group.Group) (network.Network, error) {
	r := d.resolved
	whole := r.SequenceLength
	r.SequenceLength /= g.ContextParts()
	r.parts = g
	n, err := r.network()
	n.Name, n.TokensPerSample, n.Group = d.model.name(), whole, g
	return n, err
}

// checkContext requires equal parts, and attention that can be computed in parts.
func (m Model) checkContext(g group.Group) error {
	err := cmp.Or(m.checkSparseGroup(g), m.checkDeltaContext(g), m.checkMambaContext(g), m.checkSizesOn(g),
		m.checkEncoderOn(g))
	if err != nil {
		return err
	}
	c := g.ContextParts()
	switch {
	case !m.transformer():
		return errors.New("context parallelism divides transformers alone (gpt, llama, mixtral); " +
			"set parallel.context = 1")
	case m.Attention != AttentionFlash:
		return fmt.Errorf(`attention = %q: parallel.context = %d takes fused attention, parts of which can be put `+
			`together; set attention = "flash"`, AttentionUnfused, c)
	case m.SequenceLength%(2*c) != 0:
		return fmt.Errorf("sequence_length = %d: parallel.context = %d cuts it into %d chunks, which must be equal",
			m.SequenceLength, c, 2*c)
	case g.Sequence && m.SequenceLength%(c*g.TensorParts()) != 0:
		return fmt.Errorf("sequence_length = %d: parallel.context × parallel.tensor = %d must divide it",
			m.SequenceLength, c*g.TensorParts())
	case g.Method != group.ContextUlysses || !m.attends():
		return nil
	}
	for _, heads := range []struct {
		key string
		n   int
	}{
		{"heads", m.Heads}, {"kv_heads", m.KVHeads}, {"window_heads", m.inWindow().Heads},
		{"window_kv_heads", m.inWindow().KVHeads},
	} {
		if heads.n%g.All() != 0 {
			return fmt.Errorf(`%s = %d: with context_method = "ulysses" parallel.context × parallel.tensor = %d `+
				`must divide them; set context_method = "ring"`, heads.key, heads.n, g.All())
		}
	}
	return nil
}

// inContext makes the core of attention for one of the parts of a sequence. The operation core is
// over that part alone; its Pairs are its share of the pairs of the whole sequence.
func (m Model) inContext(prefix string, core network.Op) []network.Op {
	switch {
	case m.parts.ContextParts() == 1:
		return []network.Op{core}
	case m.parts.Method == group.ContextGather:
		return m.gatheredContext(prefix, core)
	case m.parts.Method == group.ContextUlysses:
		return m.exchangedContext(prefix, core)
	}
	return m.ringContext(prefix, core)
}

// keysAndValues counts the elements of the keys and values of a part.
func (m Model) keysAndValues() int64 {
	return elements(m.SequenceLength, m.KVHeads*(m.HeadDim+m.valueDim()))
}

// ringContext computes a block of attention with the keys and values of every part. The block with the
// part's own keys is a triangle. Every other block has all queries and half of the keys, or half of
// the queries and all keys, so that it moves three quarters of the bytes of the first. The results
// are scaled by their statistics and added up, and so are gradients (Transformer Engine,
// attention/context_parallel.py).
func (m Model) ringContext(prefix string, core network.Op) []network.Op {
	c := int64(m.parts.ContextParts())
	others := func(n int64) int64 { return n * 3 * (c - 1) / 4 }
	core.Cols *= c
	core.Blocks, core.Passed = c, m.keysAndValues()
	for p := range core.Moved {
		core.Moved[p] += others(core.Moved[p])
		core.Writes[p] += others(core.Writes[p])
	}
	queries := elements(m.SequenceLength, m.Heads*m.HeadDim)
	sums := network.Op{Name: prefix + "sum_blocks", Class: network.Elementwise, Elements: core.Elements}
	results, gradients := others(core.Elements), others(queries+core.Passed)
	sums.Writes = [3]int64{network.Forward: results, network.InputGradient: gradients}
	sums.Moved = [3]int64{network.Forward: 3 * results, network.InputGradient: 3 * gradients}
	sums.Launches = [3]int{network.Forward: int(c - 1), network.InputGradient: int(2 * (c - 1))}
	return []network.Op{core, sums.Divided().Of(network.FusedCore)}
}

// gatheredContext gathers keys and values before the core, and scatters the sums of their gradients.
// Gathered tensors are not kept, so that I gathers them again. The two chunks of a part have a kernel
// each, with the keys up to the end of the chunk.
func (m Model) gatheredContext(prefix string, core network.Op) []network.Op {
	c, kv := int64(m.parts.ContextParts()), m.keysAndValues()
	gather := network.Op{Name: prefix + "gather", Class: network.Exchange}
	gather.Exchanges[network.Forward] = group.Transfer{Collective: group.AllGather, Elements: c * kv, Context: true}
	gather.Exchanges[network.InputGradient] = group.Transfer{
		Collective: group.ReduceScatter, Elements: c * kv, Context: true,
	}
	again := network.Op{Name: prefix + "gather_again", Class: network.Exchange}
	again.Exchanges[network.InputGradient] = gather.Exchanges[network.Forward]
	// Chunks are put into the order of the sequence, and their gradients back.
	order := network.NewElementwise(prefix+"order_chunks", c*kv, traffic(2, 2), traffic(4, 4))
	order.Launches = [3]int{network.Forward: 2, network.InputGradient: 4}
	core.Cols *= c
	core.Blocks = 2
	core.Moved[network.Forward] += kv * (2*c - 1) / 2
	core.Moved[network.InputGradient] += kv * (2*c - 1)
	core.Writes[network.InputGradient] += kv * (2*c - 1) / 2
	return []network.Op{
		gather.Divided().Of(network.FusedCore), order.Divided().Of(network.FusedCore), core,
		again.Divided().Of(network.FusedCore),
	}
}

// exchangedContext computes whole sequences for a part of the heads. Data is put in order by receiver
// before it is sent, and by the chunks of the sequence after it was received.
func (m Model) exchangedContext(prefix string, core network.Op) []network.Op {
	c := int64(m.parts.ContextParts())
	core.Count /= c
	core.Rows, core.Cols, core.Pairs = core.Rows*c, core.Cols*c, core.Pairs*c
	exchange := func(name string, tensors int, n int64) []network.Op {
		ops := transposed(prefix+name, tensors, n)
		for i := range ops {
			ops[i] = ops[i].Of(network.FusedCore)
		}
		return ops
	}
	ops := exchange("to_heads", 3, elements(m.SequenceLength, m.Heads*m.HeadDim)+m.keysAndValues())
	return append(append(ops, core), exchange("to_tokens", 1, core.Elements)...)
}

// transposed makes the exchange of n elements between tokens and heads, of several tensors at a time, and the copies
// that put them in order before and after it.
func transposed(name string, tensors int, n int64) []network.Op {
	op := network.Op{Name: name, Class: network.Exchange}
	op.Exchanges[network.Forward] = group.Transfer{Collective: group.Transpose, Elements: n, Context: true}
	op.Exchanges[network.InputGradient] = op.Exchanges[network.Forward]
	order := network.NewElementwise(name+".order", n, traffic(4, 4), traffic(4, 4))
	order.Launches = [3]int{network.Forward: 2 * tensors, network.InputGradient: 2 * tensors}
	return []network.Op{op.Divided(), order.Divided()}
}

// toHeads exchanges the tokens of a part for heads of the whole sequence, or these for tokens, if there are parts.
func (m Model) toHeads(name string, n int64) []network.Op {
	if m.parts.ContextParts() == 1 {
		return nil
	}
	return transposed(name, 1, n)
}
