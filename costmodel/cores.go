package costmodel

import (
	"cmp"
	"errors"

	"psim/internal/setting"
	"psim/schedules/graph"
)

// MachineCores is [machine.cores]: those of one machine that all ranks share, with its memory. The
// zero value is a core and memory of its own for every rank.
type MachineCores struct {
	// Number is how many ranks can compute at once.
	Number int `toml:"number" json:"number"`
	// Forward to Average are how many times as long as alone these take while all other cores
	// compute, too; 0 is 1, no longer.
	Forward  float64 `toml:"forward" json:"forward"`
	Backward float64 `toml:"backward" json:"backward"` // and its halves
	Update   float64 `toml:"update" json:"update"`
	Average  float64 `toml:"average" json:"average"`
}

// Settings describes [machine.cores].
func (MachineCores) Settings() []setting.Setting {
	slower := setting.Between(1, 1<<16)
	return []setting.Setting{
		{
			Key: "number", Example: "2", Range: setting.Count(), Unset: "each has a core and memory of its own",
			Text: "tasks of ranks that can run at once, sums and messages among them; more share them",
		},
		{
			Key: "forward", Example: "1.05", Range: slower, Unset: "1",
			Text: "times as long as alone that a forward takes while all cores compute, because they share memory; " +
				"while some compute, that share of it",
		},
		{
			Key: "backward", Example: "1.05", Range: slower, Unset: "1",
			Text: "the same of a backward, and of its halves",
		},
		{Key: "update", Example: "1.3", Range: slower, Text: "the same of an optimizer's step", Unset: "1"},
		{Key: "average", Example: "1.3", Range: slower, Text: "the same of dividing summed gradients", Unset: "1"},
	}
}

// MeasuredCores returns what tasks took from each other where several ranks computed at once,
// each on one of so many cores, beside steps in which they ran alone (see Crowded).
func MeasuredCores(number int, alone, together []*graph.Trace) MachineCores {
	slower := slowdowns(number, alone, together)
	return MachineCores{number, slower[graph.Forward], slower[graph.Backward], slower[graph.Optimizer], slower[graph.Average]}
}

// check refuses cores of more than one machine, or beside what they exclude.
func (c MachineCores) check(m *Machine, g *graph.Graph) error {
	switch slower := c; {
	case c.Number == 0:
		if slower != (MachineCores{}) {
			return errors.New("cores: forward, backward, update and average need number, the cores that compute at once")
		}
	case m.Nodes(g.Ranks()) > 1:
		return errors.New("cores: those of one machine, which all ranks share; leave out devices_per_node, or the cores")
	case m.Devices() > 1:
		return errors.New("cores: a rank computes on one core, so tensor and context groups cannot be; set parallel.tensor and parallel.context to 1, or remove [machine.cores]")
	case m.threads(g) != nil:
		return errors.New("cores: compute what they launch themselves; leave out [machine.host], or the cores")
	}
	return nil
}

// of returns what the tasks of a graph take from each other; nil where nothing. What all
// cores cost each other, a part of them cost that part.
func (c MachineCores) of(g *graph.Graph) *graph.Cores {
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
		case graph.Forward:
			slower = cmp.Or(c.Forward, 1)
		case graph.Backward, graph.InputGradient, graph.WeightGradient:
			slower = cmp.Or(c.Backward, 1)
		case graph.Optimizer:
			slower = cmp.Or(c.Update, 1)
		case graph.Average:
			slower = cmp.Or(c.Average, 1)
		}
		return 1 + (slower-1)*part
	}}
}
