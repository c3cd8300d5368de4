package costmodel_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/internal/units"
)

func catalog() costmodel.Catalog {
	return costmodel.Catalog{
		Devices: []costmodel.Device{device(), {Name: "fast", Link: "wide", MemoryBandwidth: 5, HalfRowsFP32: 3, Peak: costmodel.Peak{FP32: 3}, Efficiency: costmodel.Efficiency{FP32: 0.5, Memory: 0.5}}},
		Links:   []link.Link{{Name: "wide", Bandwidth: 100, Latency: 1, Shared: "node"}, {Name: "thin", Bandwidth: 1}},
	}
}

// linkOf decodes one or more values, one over the other.
func linkOf(t *testing.T, values ...any) link.Options {
	t.Helper()
	var o link.Options
	for _, v := range values {
		require.NoError(t, o.UnmarshalTOML(v))
	}
	return o
}

func TestMachineOptions(t *testing.T) {
	m, err := costmodel.MachineOptions{Device: "fast", DevicesPerNode: 2, NICsPerNode: 3, Network: linkOf(t, "thin")}.Machine(catalog())
	require.NoError(t, err)
	require.Equal(t, costmodel.Machine{
		Device: catalog().Devices[1], DevicesPerNode: 2, NICsPerNode: 3, Link: catalog().Links[0], Network: catalog().Links[1],
	}, m)

	launch, rows := units.Duration(0), 7.0
	m, err = costmodel.MachineOptions{Device: "fast", Compute: costmodel.ComputeOptions{
		FLOPS: 8, MemoryBandwidth: 9, Memory: 10, Launch: &launch, HalfRows: &rows,
	}, Link: linkOf(t, "thin")}.Machine(catalog())
	require.NoError(t, err)
	require.Equal(t, "thin", m.Link.Name)
	require.Equal(t, costmodel.Efficiency{FP32: 1, FP16: 1, BF16: 1, Memory: 1}, m.Device.Efficiency)
	require.Equal(t, costmodel.Peak{FP32: 8, TF32: 8, FP16: 8, BF16: 8}, m.Device.Peak)
	require.EqualValues(t, 9, m.Device.MemoryBandwidth)
	require.EqualValues(t, 10, m.Device.Memory)
	require.Equal(t, 7.0, m.Device.HalfRows)
	require.Zero(t, m.Device.HalfRowsFP32, "half_rows counts in every precision")

	m, err = costmodel.MachineOptions{}.Machine(costmodel.Catalog{})
	require.NoError(t, err)
	require.Equal(t, "inline", m.Device.Name)
	require.Equal(t, link.Link{}, m.Link)
}

// Keys go over a name, or over keys before them; a name starts again.
func TestLinkOptions(t *testing.T) {
	table := map[string]any{"bandwidth": "10B/s", "latency": "5ns"}
	for _, e := range []struct {
		values []any
		want   link.Link
	}{
		{[]any{table}, link.Link{Name: "inline", Bandwidth: 10, Latency: 5}},
		{[]any{table, map[string]any{"latency": "6ns"}}, link.Link{Name: "inline", Bandwidth: 10, Latency: 6}},
		{[]any{table, "wide"}, catalog().Links[0]},
		{[]any{"wide", map[string]any{"latency": "6ns", "shared": "device"}}, link.Link{Name: "wide", Bandwidth: 100, Latency: 6, Shared: "device"}},
		{[]any{"wide", map[string]any{"collective_bandwidth": "3B/s"}, map[string]any{"collective_call": "4ns"}},
			link.Link{Name: "wide", Bandwidth: 100, Latency: 1, Shared: "node", Collective: 3, Call: 4}},
	} {
		m, err := costmodel.MachineOptions{Link: linkOf(t, e.values...)}.Machine(catalog())
		require.NoError(t, err)
		require.Equal(t, e.want, m.Link)
	}
	require.Equal(t, map[string]any{"bandwidth": "10B/s", "latency": "5ns"}, table) // as it was

	// Without a name and a bandwidth the device's own link is changed, if it has one.
	m, err := costmodel.MachineOptions{Device: "fast", Link: linkOf(t, map[string]any{"latency": "6ns"})}.Machine(catalog())
	require.NoError(t, err)
	require.Equal(t, link.Link{Name: "wide", Bandwidth: 100, Latency: 6, Shared: "node"}, m.Link)
	m, err = costmodel.MachineOptions{Device: "fast", Link: linkOf(t, table)}.Machine(catalog())
	require.NoError(t, err)
	require.Equal(t, link.Link{Name: "inline", Bandwidth: 10, Latency: 5}, m.Link)

	// What is said of collectives goes before what was measured; tables that are
	// given with it stay.
	measured := catalog()
	ranges := []link.SizeRange{{Ranks: 2, Bandwidth: 7}}
	measured.Links[0].AllReduce, measured.Links[0].AllGather = ranges, ranges
	for key, want := range map[string]int{"shared": 1, "bandwidth": 1, "latency": 0, "collective_bandwidth": 0, "collective_call": 0, "algorithm": 0} {
		value := map[string]any{"shared": "device", "bandwidth": "9B/s", "latency": "9ns", "collective_bandwidth": "9B/s", "collective_call": "9ns", "algorithm": "tree"}[key]
		m, err := costmodel.MachineOptions{Link: linkOf(t, "wide", map[string]any{key: value})}.Machine(measured)
		require.NoError(t, err)
		require.Len(t, m.Link.AllReduce, want, key)
		require.Len(t, m.Link.AllGather, want, key)
	}
	given := map[string]any{"latency": "9ns", "all_gather": []map[string]any{{"ranks": int64(2), "bandwidth": "7B/s"}}}
	m, err = costmodel.MachineOptions{Link: linkOf(t, "wide", given)}.Machine(measured)
	require.NoError(t, err)
	require.Empty(t, m.Link.AllReduce)
	require.Equal(t, ranges, m.Link.AllGather)
}

// What was measured over nodes is a function of nodes and bytes, and a network's.
func TestMeasuredErrors(t *testing.T) {
	over := func(entries ...map[string]any) link.Options {
		return linkOf(t, "wide", map[string]any{"measured": entries})
	}
	two, larger := map[string]any{"nodes": int64(2), "bandwidth": "7B/s"}, map[string]any{"nodes": int64(2), "from": "1kB", "bandwidth": "8B/s"}
	m, err := costmodel.MachineOptions{Device: "fast", Network: over(two, larger)}.Machine(catalog())
	require.NoError(t, err)
	require.Equal(t, []link.OverNodes{{Nodes: 2, Bandwidth: 7}, {Nodes: 2, From: 1000, Bandwidth: 8}}, m.Network.Measured)
	_, err = costmodel.MachineOptions{Device: "fast", Link: over(two)}.Machine(catalog())
	require.ErrorContains(t, err, "link: measured: is about several nodes, and this link is inside a node")
	for want, entries := range map[string][]map[string]any{
		"measured[1].from: entries of 2 nodes must be in the order of their sizes": {larger, two},
		"measured[1].devices = 4: the entry before of 2 nodes has 1":               {two, {"nodes": int64(2), "devices": int64(4), "from": "1kB", "bandwidth": "8B/s"}},
		"measured[0].nodes": {{"nodes": int64(1), "bandwidth": "7B/s"}},
	} {
		var o link.Options
		require.ErrorContains(t, o.UnmarshalTOML(map[string]any{"bandwidth": "1B/s", "measured": entries}), want)
	}
}

func TestMachineOptionsErrors(t *testing.T) {
	negative, infinite, nan := -1.0, math.Inf(1), math.NaN()
	for want, o := range map[string]costmodel.MachineOptions{
		`device = "zzz": not in the catalog (psim list devices)`:                       {Device: "zzz"},
		`device = "fasst": not in the catalog; did you mean fast? (psim list devices)`: {Device: "fasst"},
		`link = "wid": not in the catalog; did you mean wide? (psim list devices)`:     {Link: linkOf(t, "wid")},
		`network = "x": not in the catalog (psim list devices)`:                        {Network: linkOf(t, "x")},
		`devices_per_node = -1: must be at least 1`:                                    {DevicesPerNode: -1},
		`nics_per_node = -1: must be at least 1`:                                       {NICsPerNode: -1},
		`link: bandwidth is missing; write for example bandwidth = "25GB/s"`:           {Link: linkOf(t, map[string]any{"latency": "1ns"})},
		`network: bandwidth is missing; write for example bandwidth = "25GB/s"`:        {Network: linkOf(t, map[string]any{"latency": "1ns"})},
		`compute.half_rows = -1: must be at least 0`:                                   {Compute: costmodel.ComputeOptions{HalfRows: &negative}},
		`compute.half_rows = +Inf: must be at most 2147483647`:                         {Compute: costmodel.ComputeOptions{HalfRows: &infinite}},
		`compute.half_rows = NaN: must be at least 0`:                                  {Compute: costmodel.ComputeOptions{HalfRows: &nan}},
	} {
		_, err := o.Machine(catalog())
		require.EqualError(t, err, want)
	}
	ranges := func(tables ...map[string]any) map[string]any { return map[string]any{"all_gather": tables} }
	good := map[string]any{"ranks": int64(2), "bandwidth": "9GB/s"}
	for want, value := range map[string]any{
		`all_gather[1].bandwidth is missing; write for example bandwidth = "200GB/s"`:                                                                   ranges(good, map[string]any{"ranks": int64(4)}),
		`all_gather[1].from: ranges of 2 ranks must be in the order of their sizes, each from a larger one than the range before`:                       ranges(good, good),
		`all_gather[0].ranks = 1: must be at least 2`:                                                                                                   ranges(map[string]any{"ranks": int64(1), "bandwidth": "9GB/s"}),
		`all_gather[0].call: "7" has no unit; write for example "7ms"`:                                                                                  ranges(map[string]any{"call": int64(7)}),
		`reduce_scatter: must be a list of tables; write for example reduce_scatter = [{ranks = 8, from = "0B", call = "40us", bandwidth = "230GB/s"}]`: map[string]any{"reduce_scatter": []any{int64(3)}},
		`must be a name (psim list devices), or a table with bandwidth = "25GB/s" and latency = "5us"`:                                                  int64(5),
		`bandwidth = "0B/s": must be more than 0`:                                                                                                       map[string]any{"bandwidth": "0B/s"},
		`collective_bandwidth = "0B/s": must be more than 0`:                                                                                            map[string]any{"collective_bandwidth": "0B/s"},
		`speedup = +Inf: must be finite`:                                                                                                                map[string]any{"speedup": infinite},
		`speedup = NaN: must be more than 0`:                                                                                                            map[string]any{"speedup": nan},
		`bandwidth: "5" has no unit; write for example "5GB/s"`:                                                                                         map[string]any{"bandwidth": int64(5)},
		`shared = "both": must be device or node`:                                                                                                       map[string]any{"shared": "both"},
		`bandwith: unknown key; did you mean bandwidth?`:                                                                                                map[string]any{"bandwith": "5GB/s"},
	} {
		var o link.Options
		require.EqualError(t, o.UnmarshalTOML(value), want)
	}
}
