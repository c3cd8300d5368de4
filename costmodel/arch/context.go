package arch

import (
	"errors"
	"fmt"
)

// Context parallelism cuts every sequence into parts, which are computed apart from each
// other everywhere but in the core of attention. Under a causal mask the first tokens have
// little to attend to and the last have much, so that a sequence is cut into twice as many
// chunks as there are parts, of which part r has the r-th from both ends: all compute
// equally many pairs.

// The ways in which parts attend to each other, legal values of Group.Method.
const (
	// ContextRing passes keys and values round, beside attention to those that are there
	// (Liu et al. 2023, Ring Attention; Transformer Engine's p2p).
	ContextRing = "ring"
	// ContextGather gathers all keys and values first (Llama Team 2024, section 3.3.2).
	ContextGather = "all-gather"
	// ContextUlysses exchanges parts of sequences for whole ones of some of the heads
	// (Jacobs et al. 2023, DeepSpeed Ulysses; Transformer Engine's a2a).
	ContextUlysses = "ulysses"
)

// inParts builds the network as a device has it that computes one of the parts into which a
// group cuts sequences.
func (m Model) inParts(g Group) (Network, error) {
	if g.context() == 1 {
		return m.Network()
	}
	r, err := m.resolve()
	if err == nil {
		err = r.checkContext(g)
	}
	if err != nil {
		return Network{}, err
	}
	whole := r.SequenceLength
	r.SequenceLength /= g.context()
	r.parts = g
	n, err := r.network()
	n.Name, n.TokensPerSample, n.Group = m.name(), whole, g
	return n, err
}

// checkContext wants equal parts, and attention that takes them.
func (m Model) checkContext(g Group) error {
	c := g.context()
	switch {
	case !m.transformer():
		return errors.New("context parallelism divides transformers alone (gpt, llama, mixtral); set parallel.context = 1")
	case m.Attention != AttentionFlash:
		return fmt.Errorf(`attention = %q: parallel.context = %d takes fused attention, parts of which can be put together; set attention = "flash"`, AttentionUnfused, c)
	case m.SequenceLength%(2*c) != 0:
		return fmt.Errorf("sequence_length = %d: parallel.context = %d cuts it into %d chunks and must divide half of it", m.SequenceLength, c, 2*c)
	case g.Sequence && m.SequenceLength%(c*g.devices()) != 0:
		return fmt.Errorf("sequence_length = %d: parallel.context × parallel.tensor = %d must divide it", m.SequenceLength, c*g.devices())
	case g.Method != ContextUlysses:
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
