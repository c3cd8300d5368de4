package configs

import (
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// wire makes the graph of an experiment and its costs. In a brief one the first replica stands
// for all if these do the same at the same time.
func (c *Config) wire(e *Experiment, p wiring.Pipeline, price func(*graph.Graph) (graph.Costs, error)) (err error) {
	p.Synchronous, p.WholeLast = c.Schedule.Synchronous, c.Schedule.WholeLast
	for _, p.Folded = range []bool{p.Brief && p.Foldable(), false} {
		if e.Graph, err = p.Graph(); err != nil {
			return c.problem("schedule", err)
		}
		if e.Costs, err = price(e.Graph); err != nil {
			return err
		}
		if !p.Folded || e.Graph.Alike(e.Costs) {
			break
		}
	}
	return nil
}
