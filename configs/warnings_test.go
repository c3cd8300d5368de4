package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Measured collectives of more ranks than a node has devices, or of more than there
// are nodes, price nothing, and that is said.
func TestUnusedRanges(t *testing.T) {
	const text = "[schedule]\nname = \"ddp\"\n[model]\npreset = \"gpt2\"\n[batch]\nglobal = 16\n[parallel]\ndata = 16\n" +
		"[machine]\ndevice = \"a100-80gb-sxm\"\nnetwork = \"ib-hdr\"\n"
	table := func(ranks string) string { return `[{ranks = ` + ranks + `, bandwidth = "9GB/s"}]` }
	for _, c := range []struct {
		sets []string
		want []string
	}{
		{[]string{"machine.devices_per_node=8"}, nil},
		{[]string{"machine.devices_per_node=4"}, nil}, // a catalog's link has tables for 2 to 8
		{[]string{"machine.link.all_reduce=" + table("16"), "machine.link.bandwidth=9GB/s"}, nil},
		{[]string{"machine.link.all_reduce=" + table("16"), "machine.link.bandwidth=9GB/s", "machine.devices_per_node=8"},
			[]string{"machine.link.all_reduce of 16 ranks prices nothing here: it is for collectives inside a node, which has 8 devices"}},
		{[]string{"machine.network.all_gather=" + table("16"), "machine.devices_per_node=8"},
			[]string{"machine.network.all_gather of 16 ranks prices nothing here: it is for one rank on each of 2 nodes"}},
		{[]string{"machine.network.all_gather=" + table("2"), "machine.devices_per_node=8"}, nil},
	} {
		plan, err := parse(t, text, c.sets...).Build()
		require.NoError(t, err)
		require.Equal(t, c.want, plan.Warnings)
	}
}

// A collective by itself goes by bandwidth and latency, and keys that price fused
// ones do nothing, which is said; links of the catalog may have them.
func TestOnlyFused(t *testing.T) {
	const text = "[schedule]\nname = \"ring-allreduce\"\n[collective]\nbytes = \"1GB\"\nranks = 8\n[machine]\ndevice = \"a100-80gb-sxm\"\n"
	const why = ": no effect here; [collective] simulates a ring message by message, with bandwidth and latency alone"
	for _, c := range []struct {
		sets []string
		want []string
	}{
		{nil, nil},
		{[]string{"machine.link.bandwidth=1GB/s", "machine.link.latency=5us"}, nil},
		{[]string{"machine.link.bandwidth=1GB/s", "machine.link.collective_bandwidth=1GB/s", "machine.link.algorithm=tree"},
			[]string{"machine.link.collective_bandwidth, machine.link.algorithm" + why}},
		{[]string{"machine.network=ib-hdr", "machine.network.collective_call=5us", "machine.devices_per_node=4"},
			[]string{"machine.network.collective_call" + why}},
	} {
		plan, err := parse(t, text, c.sets...).Build()
		require.NoError(t, err)
		require.Equal(t, c.want, plan.Warnings)
	}
}
