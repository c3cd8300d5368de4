package configs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules/graph"
)

// A plan's settings that price something are those that it uses, with their source.
func TestPricedKeys(t *testing.T) {
	c, err := Parse("x.toml", []byte("schedule.name = \"ddp\"\nmodel.preset = \"gpt2\"\ntrain.precision = \"bf16\"\nmachine.device = \"a100-80gb-sxm\"\nmachine.compute.unaligned = 0.5\nmachine.host.task = \"1us\"\nbatch.global = 2"))
	require.NoError(t, err)
	experiment, err := c.Build()
	require.NoError(t, err)
	var keys []string
	for _, p := range c.Pricing(experiment) {
		keys = append(keys, p.Key+" "+p.From)
	}
	device := " device a100-80gb-sxm"
	for _, want := range []string{"machine.compute.efficiency" + device, "machine.compute.half_rows" + device, "machine.compute.unaligned given", "machine.host.task given"} {
		require.Contains(t, keys, want)
	}
	require.NotContains(t, keys, "machine.link.bandwidth link nvlink3-a100", "one device has none")
}

// What psim calibrate has measured prices its layers and the optimizer's step.
func TestPricedByCalibration(t *testing.T) {
	c, err := Parse("x.toml", []byte(`schedule.name = "ddp"
model = {family = "mlp", layers = 2, hidden = 8}
batch.global = 2
train.optimizer = "adam"
machine.cores = {number = 2, forward = 1.5, update = 1.2}
machine.compute = {flops = "1GFLOP/s", memory_bandwidth = "1GB/s"}
[[machine.optimizer]]
name = "adam"
per_tensor = "1us"
rate = "1GB/s"
`))
	require.NoError(t, err)
	experiment, err := c.Build()
	require.NoError(t, err)
	classes := map[string][]string{}
	for _, p := range c.Pricing(experiment) {
		classes[p.Key] = p.Classes
	}
	require.Equal(t, []string{graph.Updating}, classes["machine.optimizer"])
	require.NotContains(t, classes["machine.compute.memory_bandwidth"], graph.Updating)
	require.Contains(t, classes["machine.cores.forward"], "products")
	require.Equal(t, []string{graph.Updating}, classes["machine.cores.update"])
}
