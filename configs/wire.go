package configs

import (
	"errors"

	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// wire makes the graph of a plan and its costs: packed if there is a packer and the graph
// can be packed; and with a packer one replica for all if they do the same.
func (c *Config) wire(experiment *Experiment, p wiring.Pipeline, packer *wiring.Packer, price func(*graph.Graph) (graph.Costs, error)) error {
	p.Synchronous, p.WholeLast = c.Schedule.Synchronous, c.Schedule.WholeLast
	pack := packer != nil
	for _, folded := range []bool{true, false} {
		if !pack {
			break
		}
		packed, err := packer.Pack(p, folded)
		if err == nil {
			experiment.Graph, experiment.Packed = packed.Graph, packed
			if experiment.Costs, err = price(packed.Graph); err != nil {
				return err
			}
			err = packed.Price(experiment.Costs)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, graph.ErrNotPacked):
			pack = false
		case !errors.Is(err, graph.ErrNotAlike):
			return c.problem("schedule", err)
		}
	}
	for _, p.Alone = range []bool{packer != nil && p.Shape.Replicas > 1 && p.Shards == nil && p.Sync.Broadcast == nil, false} {
		g, err := p.Graph()
		if err != nil {
			return c.problem("schedule", err)
		}
		experiment.Graph, experiment.Packed, experiment.Alone = g, nil, p.Alone
		if experiment.Costs, err = price(g); err != nil {
			return err
		}
		if !p.Alone || g.Alike(experiment.Costs, len(p.Tied)) {
			break
		}
	}
	return nil
}
