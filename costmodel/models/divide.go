package models

import (
	"errors"
	"fmt"
	"slices"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/internal/setting"
)

// On builds the layers of one device of a group, with the exchanges among the group. It fails if the
// group does not divide the model.
func (m Model) On(g group.Group) (network.Network, error) {
	n, err := m.inParts(g)
	if err != nil || g.TensorParts() == 1 && !g.Dispatches() {
		return n, err
	}
	r, err := m.resolve()
	if err == nil {
		err = r.checkGroup(g)
	}
	if err != nil {
		return network.Network{}, err
	}
	return n.Divided(g), nil
}

// checkGroup requires equal shares of everything that is divided.
func (m Model) checkGroup(g group.Group) error {
	t := g.TensorParts()
	if !m.transformer() {
		return errors.New("tensor parallelism divides transformers alone (gpt, llama, mixtral); " +
			"set parallel.tensor = 1")
	}
	if err := m.checkExperts(g); err != nil {
		return err
	}
	divided := []string{"heads", "kv_heads"}
	if m.Experts == 0 || m.DenseLayers > 0 || m.MoEEvery > 1 || !g.Dispatches() && m.ExpertHidden == 0 {
		divided = append(divided, "ffn_hidden")
	}
	if !g.Dispatches() || m.SharedExperts > 0 {
		divided = append(divided, "expert_hidden")
	}
	if g.Sequence {
		divided = append(divided, "sequence_length")
	}
	for s, value := range setting.Given(m) {
		if slices.Contains(divided, s.Key) && value.(int)%t != 0 {
			return fmt.Errorf("%s = %d: parallel.tensor = %d must divide it", s.Key, value, t)
		}
	}
	// The vocabulary comes last, since only it is easily changed.
	if m.Vocab%t != 0 {
		padded := (m.Vocab + 128*t - 1) / (128 * t) * 128 * t
		return fmt.Errorf("vocab = %d: parallel.tensor = %d must divide it; set vocab = %d, "+
			"to which Megatron pads it (a multiple of 128 × tensor)", m.Vocab, t, padded)
	}
	return nil
}
