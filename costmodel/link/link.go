// Package link gives the time of messages and collectives over the links between devices.
//
// A message occupies its link for bytes / bandwidth and arrives a latency later. A collective
// over n ranks takes the time that was measured for its link and size, if there is a table
// ([SizeRange], [OverNodes]); otherwise the closed form of an algorithm:
//
//	ring                all-gather  (n−1) (latency + bytes/(n·bandwidth)); all-reduce twice that
//	tree                all-reduce  2⌈log₂ n⌉ latency + 2 bytes/bandwidth
//	nvls                all-reduce  2 latency + (1+1/n) bytes/nvls bandwidth; all-gather latency + bytes/…
//	nvls-tree           all-reduce  tree between nodes, nvls inside
//	pat                 all-gather  ⌈log₂ n⌉ latency + n pat_rank + (n−1)/n bytes/(0.75 bandwidth)
//	sharp               all-reduce  2 latency + bytes/bandwidth between nodes
//	halving-doubling    all-gather  log₂ n latency + (n−1)/n bytes/bandwidth; all-reduce twice that
//	hierarchical        first inside nodes, then between them
//
// Bandwidths of collectives are bus bandwidths, as nccl-tests define them. Bytes are those of
// the whole tensor. The package knows neither devices nor graphs; package costmodel finds the
// link that a group of ranks uses.
package link

import (
	"slices"
	"time"

	"psim/internal/setting"
	"psim/internal/units"
)

// A Link joins two devices of a node, or two nodes.
type Link struct {
	Name        string         `toml:"-"`
	Description string         `toml:"description"`
	Bandwidth   units.Rate     `toml:"bandwidth"` // one transfer, one direction
	Latency     units.Duration `toml:"latency"`   // of one transfer, or one step of a collective
	// Collective is the bandwidth of a ring over such links: NCCL's "bus bandwidth". 0 means
	// Bandwidth.
	Collective units.Rate `toml:"collective_bandwidth"`
	// AllToAll is the bandwidth with which a device sends to all others at once; 0 means the
	// lower of Bandwidth and Collective.
	AllToAll units.Rate `toml:"all_to_all_bandwidth"`
	// Call is the time that a fused collective takes in addition to its steps.
	Call units.Duration `toml:"collective_call"`
	// Shared says which transfers queue for each other: those that leave one device
	// ("device", or ""), or all transfers of a node ("node"), which pass through host memory.
	Shared string `toml:"shared"`
	// Algorithm is one of Algorithms; "" means a ring.
	Algorithm string `toml:"algorithm"`
	// NCCL is the version whose algorithms Auto chooses among, of a link inside a node; 0 stands for
	// rings and trees.
	NCCL Version `toml:"nccl"`
	// PATRank is what every rank adds to a gather or scatter by PAT.
	PATRank units.Duration `toml:"pat_rank"`
	// NVLS is the rate of a device's link to a switch that adds up and repeats; 0: there is none.
	NVLS units.Rate `toml:"nvls_bandwidth"`
	// SHARP says that the switches of a network add up all-reduces.
	SHARP bool `toml:"sharp"`
	// AllReduce, AllGather and ReduceScatter are measured times, by ranks and bytes. A number
	// of ranks that is only in AllReduce takes half of that time to gather or to scatter.
	AllReduce     []SizeRange `toml:"all_reduce"`
	AllGather     []SizeRange `toml:"all_gather"`
	ReduceScatter []SizeRange `toml:"reduce_scatter"`
	// Speedup multiplies all bandwidths, to ask what a faster link would give. 0 means 1.
	Speedup float64 `toml:"speedup"`
	// Measured is measured times of all-reduces over whole nodes of a network.
	Measured []OverNodes `toml:"measured"`
	// Source says where values come from, by key.
	Source map[string]string `toml:"source"`

	levels *levels // of a group over several nodes; else nil
	apart  bool    // of a group with one rank on each of several nodes
}

// Settings describes the keys of a link in a configuration.
func (Link) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "bandwidth", Prices: transferClasses(), Required: true, Example: `"25GB/s"`, Range: setting.Positive(),
			Text: "of one transfer, in one direction",
		},
		{
			Key: "latency", Prices: transferClasses(), Example: `"5us"`,
			Text: "of one transfer, or of one step of a collective", Unset: "0us",
		},
		{
			Key: "collective_bandwidth", Prices: fusedClasses(),
			Example: `"20GB/s"`, Range: setting.Positive(),
			Text: "of a ring, NCCL's bus bandwidth", Unset: "bandwidth",
		},
		{
			Key: "all_to_all_bandwidth", Prices: collectiveClasses(), Example: `"310GB/s"`, Range: setting.Positive(),
			Text:  "of a device to all others at once, as where every pair has a link of its own",
			Unset: "the lower of bandwidth and collective_bandwidth",
		},
		{
			Key: "collective_call", Prices: fusedClasses(), Example: `"20us"`,
			Text: "what a fused collective costs in addition to its steps", Unset: "0us",
		},
		{
			Key: "speedup", Prices: transferClasses(), Factor: 2, Example: "2.0", Range: setting.Positive(),
			Text: "times these bandwidths, measured ones as well: what a faster or slower link would give", Unset: "1",
		},
		{
			Key: "shared", Prices: []string{"pipeline", "collective"}, Example: `"device"`,
			OneOf: []string{"device", "node"},
			Text:  "which transfers queue for each other: those that leave one device, or all of a node",
			Unset: "device",
		},
		{
			Key: "algorithm", Prices: collectiveClasses(), Idle: []string{"[collective]"}, Example: `"ring"`,
			OneOf: Algorithms(),
			Text: "of collectives: ring, tree, nvls, nvls-tree, pat, sharp, halving-doubling, hierarchical (in every " +
				"node, then between them), or auto, the fastest of those that NCCL has, by nccl. Where it does not " +
				"apply, ring does",
			Unset: "ring",
		},
		{
			Key: "nccl", Prices: collectiveClasses(), Idle: []string{"[collective]"}, Example: `"2.29"`,
			Text: "version of NCCL, of a link inside a node: auto has NVLS (NVLink SHARP) from 2.17 on, its trees " +
				"over nodes from 2.18, PAT from 2.23. Another set of algorithms drops the named link's own lists",
			Unset: "rings and trees alone",
		},
		{
			Key: "pat_rank", Prices: collectiveClasses(), Idle: []string{"[collective]"}, Example: `"2.8us"`,
			Text: "of a link inside a node, what every rank adds to the steps of PAT", Unset: "0us",
		},
		{
			Key: "nvls_bandwidth", Prices: collectiveClasses(), Idle: []string{"[collective]"},
			Example: `"305GB/s"`, Range: setting.Positive(),
			Text: "of a device's link to a switch that adds up and repeats (NVLink SHARP): an all-reduce over n " +
				"devices moves 1 + 1/n of its bytes, a gather or a scatter all of them",
			Unset: "the switch does not",
		},
		{
			Key: "sharp", Prices: collectiveClasses(), Idle: []string{"[collective]"}, Example: "true",
			Text:  "of a network: its switches add up all-reduces, and NCCL uses it (NCCL_COLLNET_ENABLE=1)",
			Unset: "they do not",
		},
		{
			Key: "all_reduce", Prices: fusedClasses(),
			Example: `[{ranks = 8, from = "0B", call = "70us", bandwidth = "220GB/s"}]`,
			Text: "what all-reduces took, as psim calibrate --nccl finds it: call + 2 (n-1)/n of the bytes over " +
				"bandwidth, for whole tensors of at least from bytes. A named link loses its own lists where " +
				"latency, algorithm or collective_* is set",
			Unset: "by algorithm",
		},
		{
			Key: "all_gather", Prices: fusedClasses(),
			Example: `[{ranks = 8, from = "0B", call = "40us", bandwidth = "230GB/s"}]`,
			Text: "the same of all-gathers, with (n-1)/n of the bytes. A number of ranks that only all_reduce has " +
				"takes half of its steps and of collective_call",
			Unset: "by all_reduce",
		},
		{
			Key: "reduce_scatter", Prices: fusedClasses(),
			Example: `[{ranks = 8, from = "0B", call = "40us", bandwidth = "230GB/s"}]`,
			Text:    "the same of reduce-scatters", Unset: "by all_reduce",
		},
		{
			Key: "measured", Prices: collectiveClasses(),
			Example: `[{nodes = 4, devices = 8, from = "0B", call = "400us", bandwidth = "340GB/s"}]`,
			Text: "of a network, what all-reduces over that many nodes took, as psim calibrate --nccl finds it. " +
				"Numbers of nodes between take the next that was measured, and more take the last",
			Unset: "by algorithm",
		},
	}
}

// levels describe a group over several nodes with several ranks on some of them: the links
// inside a node, and the network with all cards of a node.
type levels struct {
	nodes, perNode int // perNode is 0 if nodes have different numbers of ranks
	within, across Link
}

// WithLevels returns the link for a group with perNode ranks on each of its nodes, or 0 if these
// numbers differ. l is the link that bounds a ring over the group.
func (l Link) WithLevels(nodes, perNode int, within, across Link) Link {
	l.levels = &levels{nodes, perNode, within, across}
	return l
}

// Apart returns the link for a group with one rank on each of several nodes.
func (l Link) Apart() Link {
	l.apart = true
	return l
}

// Transfer returns the time for which a message occupies the link.
func (l Link) Transfer(bytes int64) time.Duration {
	return units.Seconds(float64(bytes) / float64(l.Bandwidth))
}

// BusBandwidth is the bandwidth that a ring collective sees, in bytes per second.
func (l Link) BusBandwidth() float64 {
	if l.Collective > 0 {
		return float64(l.Collective)
	}
	return float64(l.Bandwidth)
}

// Share returns the link with a share of its bandwidth, for each of several devices that use it
// at the same time. Its tables stay those of the whole link (see ShareTables).
func (l Link) Share(share float64) Link {
	l.Bandwidth = units.Rate(float64(l.Bandwidth) * share)
	l.Collective = units.Rate(float64(l.Collective) * share)
	l.AllToAll = units.Rate(float64(l.AllToAll) * share)
	l.NVLS = units.Rate(float64(l.NVLS) * share)
	return l
}

// ShareTables returns the link with a share of the bandwidth in its tables.
func (l Link) ShareTables(share float64) Link {
	for _, t := range l.Tables() {
		ranges := slices.Clone(t.Ranges)
		for i, r := range ranges {
			ranges[i].Bandwidth = units.Rate(float64(r.Bandwidth) * share)
		}
		l.SetTable(t.Kind, ranges)
	}
	l.Measured = slices.Clone(l.Measured)
	for i := range l.Measured {
		l.Measured[i].Bandwidth *= units.Rate(share)
	}
	return l
}

// WithoutTables returns the link without measured times, so that closed forms apply.
func (l Link) WithoutTables() Link {
	l.AllReduce, l.AllGather, l.ReduceScatter, l.Measured = nil, nil, nil, nil
	return l
}
