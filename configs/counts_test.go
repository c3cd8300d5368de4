package configs_test

import (
	"fmt"
	"math"
	"strings"
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

// No count may be zero, negative or beyond its largest value, at most 31 bits;
// leaving it out is another matter.
func TestCounts(t *testing.T) {
	const size = 1 << 30
	for key, most := range map[string]int64{
		"schedule.stages": math.MaxInt32, "schedule.microbatches": math.MaxInt32, "schedule.virtual_stages": math.MaxInt32,
		"batch.global": math.MaxInt32, "batch.micro": math.MaxInt32, "parallel.data": math.MaxInt32, "parallel.tensor": 65536,
		"machine.devices_per_node": math.MaxInt32, "machine.nics_per_node": math.MaxInt32,
		"model.layers": 10_000, "model.hidden": size, "model.heads": size, "model.kv_heads": size,
		"model.head_dim": size, "model.ffn_hidden": size, "model.vocab": size,
		"model.sequence_length": size, "model.positions": size, "collective.ranks": math.MaxInt32,
	} {
		text := networkKeys
		switch section, _, _ := strings.Cut(key, "."); section {
		case "schedule":
			text = small
		case "collective":
			text = ring
		}
		low, high := "at least 1", fmt.Sprintf("at most %d", most)
		if most < size {
			low, high = fmt.Sprintf("1 to %d", most), fmt.Sprintf("1 to %d", most)
		}
		for value, what := range map[int64]string{0: low, -1: low, most + 1: high, 1 << 62: high} {
			set := fmt.Sprintf("%s=%d", key, value)
			err := failure(configs.Parse("x.toml", []byte(text), set))
			require.EqualError(t, err, fmt.Sprintf("%s: %s = %d: must be %s", set, key, value, what))
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
			text = networkKeys
		}
		require.ErrorContains(t, failure(configs.Parse("x.toml", []byte(text), sets...)), "tasks, more than 2147483647", "%v", sets)
	}
	sharded := []string{"schedule.name=ddp", "schedule.stages=1", "parallel.zero=3", "batch.micro=1", "schedule.microbatches=300000000"}
	require.ErrorContains(t, failure(configs.Parse("x.toml", []byte(networkKeys), sharded...)), "schedule.microbatches = 300000000: the graph would have at least 4.2e+09 tasks", "seven layers")
	err := failure(configs.Parse("x.toml", []byte(networkKeys), "parallel.data=1000000000", "batch.global=2000000000"))
	require.ErrorContains(t, err, "tasks")
	err = failure(configs.Parse("x.toml", []byte(networkKeys), "schedule.stages=500000000", "schedule.microbatches=1"))
	require.ErrorContains(t, err, "has 7 layers")
	err = failure(configs.Parse("x.toml", []byte(small), "schedule.stages=500000000", "schedule.microbatches=1", "schedule.placement=[0]"))
	require.ErrorContains(t, err, "rank 1 has no stage")
}

// Numbers that used to wrap around: node numbers in 32 bits, queues of network
// cards that nobody has, bytes of a microbatch.
func TestLargeNumbers(t *testing.T) {
	for _, set := range []string{"machine.devices_per_node=2147483647", "machine.nics_per_node=2147483647"} {
		_, want := run(t, parse(t, networkKeys))
		_, got := run(t, parse(t, networkKeys, set))
		require.Equal(t, want, got)
	}
	many := []string{"machine.devices_per_node=1", "machine.network=ib-hdr"}
	_, want := run(t, parse(t, networkKeys, many...))
	_, got := run(t, parse(t, networkKeys, append(many, "machine.nics_per_node=2147483647")...))
	require.Equal(t, want, got)

	// An arrangement that is refused because its bytes pass 63 bits.
	err := failure(configs.Parse("x.toml", []byte(networkKeys), "batch.global=2147483647", "schedule.microbatches=1", "model.sequence_length=8192"))
	require.ErrorContains(t, err, "batch.global=2147483647: batch: 2147483647 samples per step of gpt-4x64 are more than can be counted in bytes")
}
