package models

import (
	"errors"
	"fmt"

	"psim/costmodel/group"
	"psim/costmodel/network"
)

// Context parallelism cuts every sequence into parts, which are computed apart from each
// other everywhere but in the core of attention. Under a causal mask the first tokens have
// little to attend to and the last have much, so that a sequence is cut into twice as many
// chunks as there are parts, of which part r has the r-th from both ends: all compute
// equally many pairs.

// inParts builds the network as a device has it that computes one of the parts into which a
// group cuts sequences.
func (m Model) inParts(g group.Group) (network.Network, error) {
	if g.ContextParts() == 1 {
		return m.Network()
	}
	r, err := m.resolve()
	if err == nil {
		err = r.checkContext(g)
	}
	if err != nil {
		return network.Network{}, err
	}
	whole := r.SequenceLength
	r.SequenceLength /= g.ContextParts()
	r.parts = g
	n, err := r.network()
	n.Name, n.TokensPerSample, n.Group = m.name(), whole, g
	return n, err
}

// checkContext wants equal parts, and attention that takes them.
func (m Model) checkContext(g group.Group) error {
	c := g.ContextParts()
	switch {
	case !m.transformer():
		return errors.New("context parallelism divides transformers alone (gpt, llama, mixtral); set parallel.context = 1")
	case m.Attention != AttentionFlash:
		return fmt.Errorf(`attention = %q: parallel.context = %d takes fused attention, parts of which can be put together; set attention = "flash"`, AttentionUnfused, c)
	case m.SequenceLength%(2*c) != 0:
		return fmt.Errorf("sequence_length = %d: parallel.context = %d cuts it into %d chunks, which must be equal", m.SequenceLength, c, 2*c)
	case g.Sequence && m.SequenceLength%(c*g.TensorParts()) != 0:
		return fmt.Errorf("sequence_length = %d: parallel.context × parallel.tensor = %d must divide it", m.SequenceLength, c*g.TensorParts())
	case g.Method != group.ContextUlysses:
		return nil
	}
	for _, heads := range []struct {
		key string
		n   int
	}{{"heads", m.Heads}, {"kv_heads", m.KVHeads}} {
		if heads.n%g.All() != 0 {
			return fmt.Errorf(`%s = %d: with context_method = "ulysses" parallel.context × parallel.tensor = %d must divide them; set context_method = "ring"`, heads.key, heads.n, g.All())
		}
	}
	return nil
}

// inContext puts together what the core of attention is for one of the parts of a sequence:
// core is what it would be over that part alone, in which Pairs are its share of the whole
// sequence's.
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

// keysAndValues counts the elements of both in a part.
func (m Model) keysAndValues() int64 {
	return elements(m.SequenceLength, m.KVHeads*(m.HeadDim+m.valueDim()))
}

// ringContext computes a block of attention with the keys and values of every part. That with
// its own is a triangle; of the others, each goes over all queries and half of the keys, or
// half of the queries and all keys, so that a block moves three quarters of what the first
// does. Their results are added up, scaled by their statistics, and so are gradients
// (Transformer Engine, attention/context_parallel.py).
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
	sums.Writes[network.Forward], sums.Writes[network.InputGradient] = others(core.Elements), others(queries+core.Passed)
	sums.Moved[network.Forward], sums.Launches[network.Forward] = 3*others(core.Elements), int(c-1)
	sums.Moved[network.InputGradient], sums.Launches[network.InputGradient] = 3*others(queries+core.Passed), int(2*(c-1))
	return []network.Op{core, sums.Divided().Of(network.FusedCore)}
}

// gatheredContext gathers keys and values before, and scatters the sums of their gradients;
// the gathered ones are not kept, so that I gathers them again. The two chunks of a part
// have a kernel each, with the keys up to its end: half a chunk more than all of them.
func (m Model) gatheredContext(prefix string, core network.Op) []network.Op {
	c, kv := int64(m.parts.ContextParts()), m.keysAndValues()
	whole := group.Transfer{Elements: c * kv, Context: true}
	gather := network.Op{Name: prefix + "gather", Class: network.Exchange}
	gather.Exchanges[network.Forward], gather.Exchanges[network.InputGradient] = whole, whole
	gather.Exchanges[network.Forward].Collective, gather.Exchanges[network.InputGradient].Collective = group.AllGather, group.ReduceScatter
	again := network.Op{Name: prefix + "gather_again", Class: network.Exchange}
	again.Exchanges[network.InputGradient] = gather.Exchanges[network.Forward]
	order := network.NewElementwise(prefix+"order_chunks", c*kv, traffic(2, 2), traffic(4, 4)) // as they stand in the sequence, and gradients back
	order.Launches = [3]int{network.Forward: 2, network.InputGradient: 4}
	core.Cols *= c
	core.Blocks = 2
	core.Moved[network.Forward] += kv * (2*c - 1) / 2
	core.Moved[network.InputGradient] += kv * (2*c - 1)
	core.Writes[network.InputGradient] += kv * (2*c - 1) / 2
	return []network.Op{gather.Divided().Of(network.FusedCore), order.Divided().Of(network.FusedCore), core, again.Divided().Of(network.FusedCore)}
}

// exchangedContext computes whole sequences for a part of the heads. What is sent is put in
// order by receiver, and what comes by the chunks of the sequence.
func (m Model) exchangedContext(prefix string, core network.Op) []network.Op {
	c := int64(m.parts.ContextParts())
	core.Count /= c
	core.Rows, core.Cols, core.Pairs = core.Rows*c, core.Cols*c, core.Pairs*c
	exchange := func(name string, tensors int, n int64) []network.Op {
		op := network.Op{Name: prefix + name, Class: network.Exchange}
		op.Exchanges[network.Forward] = group.Transfer{Collective: group.Transpose, Elements: n, Context: true}
		op.Exchanges[network.InputGradient] = op.Exchanges[network.Forward]
		order := network.NewElementwise(prefix+name+".order", n, traffic(4, 4), traffic(4, 4))
		order.Launches = [3]int{network.Forward: 2 * tensors, network.InputGradient: 2 * tensors}
		return []network.Op{op.Divided().Of(network.FusedCore), order.Divided().Of(network.FusedCore)}
	}
	ops := exchange("to_heads", 3, elements(m.SequenceLength, m.Heads*m.HeadDim)+m.keysAndValues())
	return append(append(ops, core), exchange("to_tokens", 1, core.Elements)...)
}
