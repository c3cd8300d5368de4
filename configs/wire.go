package configs

import (
	"errors"

	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// wire makes the graph of a plan and its costs: packed if there is a packer and the graph
// can be packed, and then one replica for all if they do the same.
func (c *Config) wire(plan *Plan, p wiring.Pipeline, packer *wiring.Packer, price func(*graph.Graph) (graph.Costs, error)) error {
	p.Synchronous, p.WholeLast = c.Schedule.Synchronous, c.Schedule.WholeLast
	for _, folded := range []bool{true, false} {
		if packer == nil {
			break
		}
		packed, err := packer.Pack(p, folded)
		if err == nil {
			plan.Graph, plan.Packed = packed.Graph, packed
			if plan.Costs, err = price(packed.Graph); err != nil {
				return err
			}
			err = packed.Price(plan.Costs)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, graph.ErrNotPacked):
			packer = nil
		case !errors.Is(err, graph.ErrNotAlike):
			return c.problem("schedule", err)
		}
	}
	g, err := p.Graph()
	if err != nil {
		return c.problem("schedule", err)
	}
	plan.Graph, plan.Packed = g, nil
	plan.Costs, err = price(g)
	return err
}
