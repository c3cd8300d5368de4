package link

import (
	"fmt"
	"math"

	"psim/internal/setting"
	"psim/internal/units"
)

// An OverNodes is the measured time of a library's all-reduces over a number of nodes, from a
// number of bytes up to the next entry of these nodes: Call, and 2 (n−1)/n of the bytes over
// Bandwidth, for n devices in all.
type OverNodes struct {
	Nodes     int            `toml:"nodes"`
	Devices   int            `toml:"devices"` // of each node; 0 means 1
	From      units.Bytes    `toml:"from"`
	Call      units.Duration `toml:"call"`
	Bandwidth units.Rate     `toml:"bandwidth"`
}

// Settings describes an entry of a network's measured.
func (OverNodes) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "nodes", Required: true, Example: "4", Range: setting.Between(2, math.MaxInt32),
			Text: "of the all-reduce",
		},
		{
			Key: "devices", Default: 1, Example: "8", Range: setting.Count(),
			Text: "of each node that took part; 1 measures one network card",
		},
		{Key: "from", Default: "0B", Text: "smallest size of the whole tensor"},
		{Key: "call", Default: "0us", Text: "what it takes whatever its size"},
		{
			Key: "bandwidth", Required: true, Example: `"340GB/s"`, Range: setting.Positive(),
			Text: "bus bandwidth of all these devices, as nccl-tests define it",
		},
	}
}

// Over returns the measured times over a number of nodes as those of a group of n ranks, which
// uses some of the nics network cards of every node. If that number of nodes was not measured,
// it takes the next larger one, or the largest. It returns nil without measurements.
func (l Link) Over(nodes, n, nics int, cards float64) []SizeRange {
	taken := 0
	for _, m := range l.Measured {
		if taken < nodes && m.Nodes > taken || m.Nodes >= nodes && m.Nodes < taken {
			taken = m.Nodes
		}
	}
	var ranges []SizeRange
	for _, m := range l.Measured {
		if m.Nodes == taken {
			used := float64(min(max(1, m.Devices), nics))
			bandwidth := units.Rate(float64(m.Bandwidth) * cards / used)
			ranges = append(ranges, SizeRange{Ranks: n, From: m.From, Call: m.Call, Bandwidth: bandwidth})
		}
	}
	return ranges
}

// checkMeasured refuses entries that give two times for the same nodes and bytes.
func (l *Link) checkMeasured() error {
	if l.Measured != nil && len(l.Measured) == 0 {
		return &setting.Error{Key: "measured", Problem: " = []: holds no measurement; give entries, or remove the key"}
	}
	last := map[int]OverNodes{}
	for i, m := range l.Measured {
		at := fmt.Sprintf("measured[%d].", i)
		switch before, seen := last[m.Nodes]; {
		case seen && max(1, before.Devices) != max(1, m.Devices):
			return &setting.Error{Key: at + "devices", Problem: fmt.Sprintf(
				" = %d: the entry before of %d nodes has %d; give one number of devices for each number of nodes",
				max(1, m.Devices), m.Nodes, max(1, before.Devices))}
		case seen && before.From >= m.From:
			return &setting.Error{Key: at + "from", Problem: fmt.Sprintf(
				": entries of %d nodes must be in the order of their sizes, "+
					"each from a larger one than the entry before",
				m.Nodes)}
		}
		last[m.Nodes] = m
	}
	return nil
}
