package psim

import (
	"time"

	"psim/configs"
	"psim/costmodel"
	"psim/internal/units"
)

// cut makes the settings with which every rank does the same work in another number of
// stages: [times] and [memory] count for one stage, of which there are then more or
// fewer. It is false where that is not the same for all stages, or leaves parts of
// nanoseconds or bytes.
func cut(c *configs.Config, perRank int) (sets []string, ok bool) {
	own := c.PerRank()
	if c.Defined("model") || perRank == own {
		return nil, true
	}
	for _, t := range []struct {
		key   string
		table costmodel.Table
	}{
		{"forward", c.Times.Forward}, {"backward", c.Times.Backward},
		{"backward_input", c.Times.InputGradient}, {"backward_weight", c.Times.WeightGradient},
	} {
		if !t.table.Set() {
			continue
		}
		one, same := t.table.Same()
		all := one * time.Duration(own)
		if !same || all%time.Duration(perRank) != 0 {
			return nil, false
		}
		sets = append(sets, "times."+t.key+"="+units.Duration(all/time.Duration(perRank)).String())
	}
	for _, b := range []struct {
		key   string
		bytes units.Bytes
	}{
		{"activation", c.Memory.Activation}, {"freed_by_input_gradient", c.Memory.FreedByInputGradient},
	} {
		all := b.bytes * units.Bytes(own)
		if all%units.Bytes(perRank) != 0 {
			return nil, false
		}
		if b.bytes > 0 {
			sets = append(sets, "memory."+b.key+"="+(all/units.Bytes(perRank)).String())
		}
	}
	return sets, true
}
