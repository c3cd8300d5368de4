package models

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/internal/setting"
)

// On builds the layers of one device of a group, with the exchanges among the group. It fails if the
// group does not divide the model.
func (m Model) On(g group.Group) (network.Network, error) { return m.Divider().On(g) }

// A Divider divides a model over one group after another. It resolves the model and builds the undivided
// network once. Any number of goroutines may use it.
type Divider struct {
	model    Model
	resolved Model
	err      error
	whole    func() (network.Network, error)
}

// Divider returns a divider of the model.
func (m Model) Divider() *Divider {
	d := &Divider{model: m, whole: sync.OnceValues(m.Network)}
	d.resolved, d.err = m.resolve()
	return d
}

// On does what Model.On does.
func (d *Divider) On(g group.Group) (network.Network, error) {
	if err := d.Check(g); err != nil {
		return network.Network{}, err
	}
	build := d.whole
	if g.ContextParts() > 1 {
		build = func() (network.Network, error) { return d.inParts(g) }
	}
	n, err := build()
	if err != nil || g.TensorParts() == 1 && !g.Dispatches() {
		return n, err
	}
	return n.Divided(g), nil
}

// Check returns an error if a group does not divide the model.
func (d *Divider) Check(g group.Group) error {
	if d.err != nil {
		return d.err
	}
	if g.ContextParts() > 1 {
		if err := d.resolved.checkContext(g); err != nil {
			return err
		}
	}
	if g.TensorParts() == 1 && !g.Dispatches() {
		return nil
	}
	return d.resolved.checkGroup(g)
}

// checkGroup requires equal shares of everything that is divided.
func (m Model) checkGroup(g group.Group) error {
	t := g.TensorParts()
	if !m.transformer() {
		return errors.New("tensor parallelism divides transformers alone (gpt, llama, mixtral); " +
			"set parallel.tensor = 1")
	}
	if err := cmp.Or(m.checkExperts(g), m.checkExpertLatent(g), m.checkSizesOn(g)); err != nil {
		return err
	}
	divided := []string{"delta_key_heads", "mamba_groups"}
	if m.attends() {
		divided = append(divided, "heads", "kv_heads", "window_heads", "window_kv_heads")
	}
	if m.hasMLP() || !g.Dispatches() && m.Experts > 0 && m.ExpertHidden == 0 {
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

// hasMLP reports whether some block has an MLP and no experts.
func (m Model) hasMLP() bool {
	if m.Pattern != "" {
		return m.has(onlyMLP)
	}
	return m.Experts == 0 || m.DenseBeside || m.DenseLayers > 0 || m.MoEEvery > 1
}
