package costmodel

import (
	"cmp"
	"errors"

	"psim/internal/setting"
	"psim/schedules/graph"
)

// MachineCores is [machine.cores]: the cores of one machine, which all ranks share together with
// its memory. With the zero value every rank has a core and memory of its own.
type MachineCores struct {
	// Number is the number of ranks that can compute at once.
	Number int `toml:"number" json:"number"`
	// Forward, Backward, Update and Average are the times of these tasks while all other cores
	// compute, over their times alone; 0 means 1.
	Forward  float64 `toml:"forward" json:"forward"`
	Backward float64 `toml:"backward" json:"backward"` // also of its halves
	Update   float64 `toml:"update" json:"update"`
	Average  float64 `toml:"average" json:"average"`
}

// Settings describes [machine.cores].
func (MachineCores) Settings() []setting.Setting {
	slower := setting.Between(1, 1<<16)
	return []setting.Setting{
		{
			Key: "number", Prices: []string{"measured", "products", "attention", "between", graph.Updating},
			Example: "2", Range: setting.Count(), Unset: "each has a core and memory of its own",
			Text: "tasks of ranks that can run at once, including sums and messages; more tasks share the cores",
		},
		{
			Key: "forward", Prices: []string{"measured", "products", "attention", "between"},
			Example: "1.05", Range: slower, Unset: "1",
			Text: "time of a forward while all cores compute, over its time alone: cores share memory. While only " +
				"some compute, the slowdown is in proportion",
		},
		{
			Key: "backward", Prices: []string{"measured", "products", "attention", "between"},
			Example: "1.05", Range: slower, Unset: "1",
			Text: "the same for a backward, and for its halves",
		},
		{
			Key: "update", Prices: []string{graph.Updating}, Example: "1.3", Range: slower,
			Text: "the same for an optimizer's step", Unset: "1",
		},
		{
			Key: "average", Prices: []string{graph.Averaging}, Example: "1.3", Range: slower,
			Text: "the same for dividing summed gradients", Unset: "1",
		},
	}
}

// MeasuredCores returns how tasks slowed each other down when several ranks computed at once, each
// on one of the given number of cores, compared with steps in which tasks ran alone (see Crowding).
func MeasuredCores(number int, alone, together []*graph.Trace) MachineCores {
	slower := slowdowns(number, alone, together)
	return MachineCores{
		Number: number, Forward: slower[graph.Forward], Backward: slower[graph.Backward],
		Update: slower[graph.Optimizer], Average: slower[graph.Average],
	}
}

// check refuses the cores of more than one machine, and settings that contradict them.
func (c MachineCores) check(m *Machine, g *graph.Graph) error {
	switch slower := c; {
	case c.Number == 0:
		if slower != (MachineCores{}) {
			return errors.New("cores: forward, backward, update and average need number, " +
				"the cores that compute at once")
		}
	case m.Nodes(g.Ranks()) > 1:
		return errors.New("cores: all ranks share the cores of one machine; " +
			"leave out devices_per_node, or the cores")
	case m.Devices() > 1:
		return errors.New("cores: a rank computes on one core, so it cannot have tensor or context groups; " +
			"set parallel.tensor and parallel.context to 1, or remove [machine.cores]")
	case m.threads(g) != nil:
		return errors.New("cores: a core launches its own work; leave out [machine.host], or the cores")
	}
	return nil
}

// slowdown returns how the tasks of a graph slow each other down, or nil if ranks do not share
// cores. Where fewer ranks than cores compute, the slowdown is in proportion.
func (c MachineCores) slowdown(g *graph.Graph) *graph.Cores {
	if c.Number == 0 {
		return nil
	}
	part := 0.0
	if c.Number > 1 {
		part = float64(min(c.Number, g.Ranks())-1) / float64(c.Number-1)
	}
	return &graph.Cores{Number: c.Number, Slower: func(t *graph.Task) float64 {
		slower := 1.0
		switch t.Kind {
		case graph.Forward, graph.Loss:
			slower = cmp.Or(c.Forward, 1)
		case graph.Backward, graph.InputGradient, graph.WeightGradient:
			slower = cmp.Or(c.Backward, 1)
		case graph.Optimizer, graph.Zero:
			slower = cmp.Or(c.Update, 1)
		case graph.Average:
			slower = cmp.Or(c.Average, 1)
		}
		return 1 + (slower-1)*part
	}}
}
