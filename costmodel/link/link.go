// Package link says how long messages and collectives take over the links of a
// network: what was measured of a link, or closed forms of latency and bandwidth.
// It knows no devices and no graphs.
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
	// Collective is the bandwidth of a ring over such links where it differs
	// from Bandwidth: NCCL's "bus bandwidth". 0 means the same.
	Collective units.Rate `toml:"collective_bandwidth"`
	// AllToAll is the bandwidth that a device sends to all others at once; 0 is the lower of
	// Bandwidth and Collective.
	AllToAll units.Rate `toml:"all_to_all_bandwidth"`
	// Call is what a fused collective costs beside its steps.
	Call units.Duration `toml:"collective_call"`
	// Shared says which transfers queue for each other: those that leave one
	// device ("device", the default), or all of the node ("node"), as where
	// they pass through host memory.
	Shared string `toml:"shared"`
	// Algorithm is that of collectives, one of Algorithms; "" is a ring.
	Algorithm string `toml:"algorithm"`
	// AllReduce, AllGather and ReduceScatter are what these took, by ranks and
	// bytes. Numbers of ranks that a collective's own table has go by that alone;
	// those that only AllReduce has take half of it to gather or to scatter.
	AllReduce     []SizeRange `toml:"all_reduce"`
	AllGather     []SizeRange `toml:"all_gather"`
	ReduceScatter []SizeRange `toml:"reduce_scatter"`
	// Speedup is how many times as fast everything is that goes over the link, latency
	// aside: for questions. 0 means 1.
	Speedup float64 `toml:"speedup"`
	// Measured is what all-reduces took over whole nodes, of a network.
	Measured []OverNodes `toml:"measured"`
	// Source says, by key, where a value is from.
	Source map[string]string `toml:"source"`

	levels *levels // of a group over several nodes
}

// Settings describes the keys of a link in a configuration.
func (Link) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "bandwidth", Required: true, Example: `"25GB/s"`, Range: setting.Positive(), Text: "of one transfer, in one direction"},
		{Key: "latency", Example: `"5us"`, Text: "of one transfer, or of one step of a collective", Unset: "0us"},
		{Key: "collective_bandwidth", Example: `"20GB/s"`, Range: setting.Positive(), Text: "of a ring, NCCL's bus bandwidth", Unset: "bandwidth"},
		{Key: "all_to_all_bandwidth", Example: `"310GB/s"`, Range: setting.Positive(), Text: "of a device to all others at once, as where every pair has a link of its own", Unset: "the lower of bandwidth and collective_bandwidth"},
		{Key: "collective_call", Example: `"20us"`, Text: "what a fused collective costs beside its steps", Unset: "0us"},
		{Key: "speedup", Example: "2.0", Range: setting.Positive(), Text: "times these bandwidths, measured ones as well: what a faster or slower link would give", Unset: "1"},
		{Key: "shared", Example: `"device"`, OneOf: []string{"device", "node"}, Text: "which transfers queue for each other: those that leave one device, or all of a node", Unset: "device"},
		{Key: "algorithm", Example: `"ring"`, OneOf: Algorithms(), Text: "of collectives: ring, tree, halving-doubling, hierarchical (in every node, then between them), or auto, the faster of ring and tree, as in NCCL. Where it does not apply, ring does", Unset: "ring"},
		{Key: "all_reduce", Example: `[{ranks = 8, from = "0B", call = "70us", bandwidth = "220GB/s"}]`, Text: "what all-reduces took, as psim calibrate --nccl finds it: call + 2 (n-1)/n of the bytes over bandwidth, for whole tensors of at least from bytes. A named link loses its own lists where latency, algorithm or collective_* is set", Unset: "by algorithm"},
		{Key: "all_gather", Example: `[{ranks = 8, from = "0B", call = "40us", bandwidth = "230GB/s"}]`, Text: "the same of all-gathers, with (n-1)/n of the bytes. A number of ranks that only all_reduce has takes half of its steps and of collective_call", Unset: "by all_reduce"},
		{Key: "reduce_scatter", Example: `[{ranks = 8, from = "0B", call = "40us", bandwidth = "230GB/s"}]`, Text: "the same of reduce-scatters", Unset: "by all_reduce"},
		{Key: "measured", Example: `[{nodes = 4, devices = 8, from = "0B", call = "400us", bandwidth = "340GB/s"}]`, Text: "of a network, what all-reduces over that many nodes took, as psim calibrate --nccl finds it. Numbers of nodes between take the next that was measured, and more take the last", Unset: "by algorithm"},
	}
}

// levels describe a group over several nodes that has several ranks on one of them: the
// links inside a node, and the network with all cards that the ranks of a node have.
type levels struct {
	nodes, perNode int // perNode is 0 where nodes have different numbers of ranks
	within, across Link
}

// WithLevels is the link that bounds a ring over a group, for a group that has
// perNode ranks on each of its nodes; 0 where these numbers differ.
func (l Link) WithLevels(nodes, perNode int, within, across Link) Link {
	l.levels = &levels{nodes, perNode, within, across}
	return l
}

// Transfer is how long a link is busy with a message.
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

// Share is a link of which each of the devices that use it at the same time gets a
// share. Its tables stay those of the whole link (see ShareTables).
func (l Link) Share(share float64) Link {
	l.Bandwidth = units.Rate(float64(l.Bandwidth) * share)
	l.Collective = units.Rate(float64(l.Collective) * share)
	l.AllToAll = units.Rate(float64(l.AllToAll) * share)
	return l
}

// ShareTables is the link with a share of the bandwidth in its tables.
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

// WithoutTables is the link with the closed forms alone.
func (l Link) WithoutTables() Link {
	l.AllReduce, l.AllGather, l.ReduceScatter, l.Measured = nil, nil, nil, nil
	return l
}
