package published

import (
	"psim/configs"
	"psim/schedules/graph"
	"psim/sim"
)

// simulate predicts a configuration, given as psim run would be: TOML, and
// settings KEY=VALUE over it.
func simulate(config string, sets ...string) (*configs.Plan, graph.Summary, error) {
	c, err := configs.Parse("table", []byte(config), sets...)
	if err != nil {
		return nil, graph.Summary{}, err
	}
	return simulateConfig(c)
}

// simulateExample predicts an example, with settings over it.
func simulateExample(name string, sets ...string) (*configs.Plan, graph.Summary, error) {
	c, err := configs.Load(name, sets...)
	if err != nil {
		return nil, graph.Summary{}, err
	}
	return simulateConfig(c)
}

func simulateConfig(c *configs.Config) (*configs.Plan, graph.Summary, error) {
	plan, err := c.Build()
	if err != nil {
		return nil, graph.Summary{}, err
	}
	trace, err := sim.Run(plan.Graph, plan.Costs)
	if err != nil {
		return nil, graph.Summary{}, err
	}
	return plan, graph.Summarize(trace), nil
}
