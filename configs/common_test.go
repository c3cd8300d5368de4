package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/schedules/graph"
	"psim/sim"
)

// parse reads a configuration that must be good.
func parse(t *testing.T, text string, sets ...string) *configs.Config {
	t.Helper()
	c, err := configs.Parse("x.toml", []byte(text), sets...)
	require.NoError(t, err)
	return c
}

// failure is the error of loading or else of building a configuration.
func failure(c *configs.Config, err error) error {
	if err == nil {
		_, err = c.Build()
	}
	return err
}

// run builds and simulates.
func run(t *testing.T, c *configs.Config) (*configs.Experiment, graph.Summary) {
	t.Helper()
	experiment, err := c.Build()
	require.NoError(t, err)
	require.NoError(t, experiment.Graph.Validate())
	trace, err := sim.Run(experiment.Graph, experiment.Costs)
	require.NoError(t, err)
	return experiment, graph.Summarize(trace)
}

// small is a pipeline by explicit times, and times is its last section.
const small = `
[schedule]
name = "gpipe"
stages = 2
microbatches = 4

[times]
forward = "10ms"
backward = "20ms"
`

// network is a small network on a machine.
const networkKeys = `
[schedule]
name = "gpipe"
stages = 2
microbatches = 4

[model]
family = "gpt"
layers = 4
hidden = 64
heads = 4
vocab = 101
sequence_length = 32

[batch]
global = 16

[machine]
device = "t4"
`
