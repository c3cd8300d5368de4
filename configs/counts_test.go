package configs_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

const ring = `
[schedule]
name = "ring-allreduce"

[collective]
bytes = "1GB"
ranks = 4

[machine]
link = "pcie4"
`

// No count may be zero, negative or beyond 31 bits; leaving it out is another
// matter.
func TestCounts(t *testing.T) {
	for key, text := range map[string]string{
		"schedule.stages": small, "schedule.microbatches": small, "schedule.virtual_stages": small,
		"batch.global": network, "batch.micro": network, "parallel.data": network, "parallel.tensor": network,
		"machine.devices_per_node": network, "machine.nics_per_node": network,
		"model.layers": network, "model.hidden": network, "model.heads": network, "model.kv_heads": network,
		"model.head_dim": network, "model.ffn_hidden": network, "model.vocab": network,
		"model.sequence_length": network, "model.positions": network, "collective.ranks": ring,
	} {
		for value, what := range map[int64]string{
			0: "it must be at least 1", -1: "it must be at least 1", 1 << 31: "it must be at most 2147483647",
			1 << 62: "it must be at most 2147483647",
		} {
			set := fmt.Sprintf("%s=%d", key, value)
			err := failure(configs.Parse("x.toml", []byte(text), set))
			require.EqualError(t, err, fmt.Sprintf("--set %s: %s = %d: %s", set, key, value, what))
		}
		err := failure(configs.Parse("x.toml", []byte(text), key+"=99999999999999999999"))
		require.ErrorContains(t, err, key)
	}
}

// What would fill the memory is refused before it does.
func TestEnormousGraphs(t *testing.T) {
	for _, sets := range [][]string{
		{"schedule.stages=2147483647"},
		{"schedule.stages=2147483647", "schedule.placement=[0]"},
		{"schedule.microbatches=2147483647"},
		{"batch.micro=2147483647", "schedule.microbatches=2147483647"},
		{"batch.micro=1", "batch.global=2147483647"},
		{"batch.micro=1", "schedule.microbatches=1000000000", "schedule.stages=7"},
	} {
		text := small
		if sets[0][0] == 'b' {
			text = network
		}
		require.ErrorContains(t, failure(configs.Parse("x.toml", []byte(text), sets...)), "tasks, more than 2147483647", "%v", sets)
	}
	sharded := []string{"schedule.name=ddp", "schedule.stages=1", "parallel.zero=3", "batch.micro=1", "schedule.microbatches=300000000"}
	require.ErrorContains(t, failure(configs.Parse("x.toml", []byte(network), sharded...)), "schedule.microbatches = 300000000: the graph would have at least 4.2e+09 tasks", "seven layers")
	err := failure(configs.Parse("x.toml", []byte(network), "parallel.data=1000000000", "batch.global=2000000000"))
	require.ErrorContains(t, err, "tasks")
	err = failure(configs.Parse("x.toml", []byte(network), "schedule.stages=500000000", "schedule.microbatches=1"))
	require.ErrorContains(t, err, "has 7 layers")
	err = failure(configs.Parse("x.toml", []byte(small), "schedule.stages=500000000", "schedule.microbatches=1", "schedule.placement=[0]"))
	require.ErrorContains(t, err, "rank 1 has no stage")
}

// Numbers that used to wrap around: node numbers in 32 bits, queues of network
// cards that nobody has, bytes of a microbatch.
func TestLargeNumbers(t *testing.T) {
	for _, set := range []string{"machine.devices_per_node=2147483647", "machine.nics_per_node=2147483647"} {
		_, want := run(t, parse(t, network))
		_, got := run(t, parse(t, network, set))
		require.Equal(t, want, got)
	}
	many := []string{"machine.devices_per_node=1", "machine.network=ib-hdr"}
	_, want := run(t, parse(t, network, many...))
	_, got := run(t, parse(t, network, append(many, "machine.nics_per_node=2147483647")...))
	require.Equal(t, want, got)

	// An arrangement that is refused because its bytes pass 63 bits.
	err := failure(configs.Parse("x.toml", []byte(network), "batch.global=2147483647", "schedule.microbatches=1", "model.sequence_length=8192"))
	require.ErrorContains(t, err, "--set batch.global=2147483647: batch: 2147483647 samples per step of gpt-4x64 are more than can be counted in bytes")
}
