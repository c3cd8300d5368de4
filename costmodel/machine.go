package costmodel

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"psim/costmodel/arch"
	"psim/costmodel/link"
	"psim/internal/units"
)

// A Device is one accelerator, or one core of a CPU: a rank of a graph.
type Device struct {
	Name        string `toml:"-"`
	Description string `toml:"description"`
	// Memory is its capacity; 0 is not known.
	Memory          units.Bytes `toml:"memory"`
	MemoryBandwidth units.Rate  `toml:"memory_bandwidth"` // peak
	// Margin is the share of the memory that is to stay free: what an allocator
	// loses to fragmentation, and the driver and libraries need.
	Margin float64 `toml:"-"`
	Peak   Peak    `toml:"flops"`
	// Rated is the peak of a device in the catalog whose Peak [machine.compute] has
	// replaced.
	Rated      Peak       `toml:"-"`
	Efficiency Efficiency `toml:"efficiency"`
	// Launch is what starting one operation costs, whatever its size.
	Launch units.Duration `toml:"launch"`
	// HalfRows is the number of rows at which a matrix product reaches half
	// of the achievable rate: r rows reach r / (r + HalfRows) of it.
	HalfRows float64 `toml:"half_rows"`
	// Multiprocessors compute products of 16-bit numbers tile by tile, as many at a
	// time; 0 where tiles do not matter.
	Multiprocessors int `toml:"multiprocessors"`
	// Unaligned is the share of the rate that is left to products of 16-bit
	// numbers of which a matrix has rows that are no multiple of 16 bytes: tensor
	// cores cannot load them directly. 0 means all of it.
	Unaligned float64 `toml:"unaligned"`
	// UnalignedHeads is that of the batched products of unfused attention, where the
	// features of a head are no multiple of 16 bytes; 0 means Unaligned.
	UnalignedHeads float64 `toml:"unaligned_heads"`
	// Attention is the rate of attention in one kernel over that of large products,
	// for heads so wide that nothing but products counts; 0 where none is known, which
	// is taken for 1. Heads of HalfHead features reach half of it.
	Attention float64 `toml:"attention"`
	HalfHead  float64 `toml:"half_head"`
	// Link names the link between devices of a node that it comes with.
	Link string `toml:"link"`
	// Measured is what layers took on it, those of the network MeasuredModel
	// ("" if not known), and Updates what optimizers did.
	Measured      []Measured       `toml:"-"`
	MeasuredModel string           `toml:"-"`
	Updates       []MeasuredUpdate `toml:"-"`
	// Source says, by key, where a value is from.
	Source map[string]string `toml:"source"`
}

// Peak is the rate of dense matrix products by precision; 0 where the device
// has none. FP32 is without TF32.
type Peak struct {
	FP32 units.FLOPS `toml:"fp32"`
	TF32 units.FLOPS `toml:"tf32"`
	FP16 units.FLOPS `toml:"fp16"`
	BF16 units.FLOPS `toml:"bf16"`
}

// PeakIn is the dense peak in a precision of arch.Training, as its datasheet has it
// or, of a device described in place, as [machine.compute] does; 0 is not known.
func (d Device) PeakIn(precision string) units.FLOPS {
	peak := d.Peak
	if d.Rated != (Peak{}) {
		peak = d.Rated
	}
	switch precision {
	case "fp16":
		return peak.FP16
	case "bf16":
		return peak.BF16
	}
	return peak.FP32
}

// Efficiency is the share of the peaks that large operations reach.
type Efficiency struct {
	FP32   float64 `toml:"fp32"`
	FP16   float64 `toml:"fp16"`
	BF16   float64 `toml:"bf16"`
	Memory float64 `toml:"memory"`
}

// Achievable is the rate in FLOP/s of large matrix products in a precision of
// arch.Training.
func (d Device) Achievable(precision string) (float64, error) {
	var has []string
	for _, p := range []struct {
		name  string
		peak  units.FLOPS
		share float64
	}{{"fp32", d.Peak.FP32, d.Efficiency.FP32}, {"fp16", d.Peak.FP16, d.Efficiency.FP16}, {"bf16", d.Peak.BF16, d.Efficiency.BF16}} {
		if rate := float64(p.peak) * p.share; p.name == precision && rate > 0 && !math.IsInf(rate, 0) {
			return rate, nil
		}
		if p.peak > 0 {
			has = append(has, p.name)
		}
	}
	text := fmt.Sprintf("precision = %q: the device %s has no rate for it", precision, d.Name)
	if len(has) > 0 {
		text += "; it has " + strings.Join(has, ", ")
	}
	return 0, errors.New(text)
}

// Usable is the memory of the device without its margin, in bytes; 0 is not known.
func (d Device) Usable() int64 { return int64(float64(d.Memory) * (1 - d.Margin)) }

// A Machine is equal devices in equal nodes, counted node by node. A rank
// stands for the T devices of its tensor-parallel group, which all do the same:
// rank r is devices r·T to r·T + T − 1.
type Machine struct {
	Device         Device
	Tensor         int       // devices of a rank (T); 0 means 1
	DevicesPerNode int       // 0: all in one node
	Link           link.Link // inside a node
	Network        link.Link // between nodes, per network card
	NICsPerNode    int       // 0 means 1
	// MemoryPerNode is what the devices of a node share; 0 is not known, or none.
	MemoryPerNode units.Bytes
	Host          Host // what launches tasks
}

// RankMemory is what a rank may use at most: the memory of its device, or of its whole
// node, without the margin; 0 is not known.
func (m *Machine) RankMemory() int64 {
	most := m.Device.Usable()
	if node := int64(float64(m.MemoryPerNode) * (1 - m.Device.Margin)); node > 0 && (most == 0 || node < most) {
		most = node
	}
	return most
}

// tensor counts the devices of a rank.
func (m *Machine) tensor() int { return max(1, m.Tensor) }

// Node returns the node of a rank's first device.
func (m *Machine) Node(rank int32) int32 {
	if m.DevicesPerNode == 0 {
		return 0
	}
	return int32(int(rank) * m.tensor() / m.DevicesPerNode)
}

// siblings counts how many devices of a rank are in one node and communicate at the
// same time, each with its peer.
func (m *Machine) siblings() int {
	if m.DevicesPerNode == 0 {
		return m.tensor()
	}
	return min(m.tensor(), m.DevicesPerNode)
}

// Between is the link that a message between two ranks takes, and the queue
// it shares with others: a number from 1 that is the same for transfers that
// wait for each other. The devices of a rank all send at once: where they share
// cards or a node, each has its part of the bandwidth.
func (m *Machine) Between(from, to int32) (link.Link, int32) {
	// Queues are numbered so that the kinds do not meet: 3k+1 for devices,
	// 3k+2 for nodes, 3k+3 for network cards.
	if node := m.Node(from); node != m.Node(to) {
		nics := min(max(1, m.NICsPerNode), m.DevicesPerNode) // more have nothing to do
		card := int(node)*nics + int(from)*m.tensor()%m.DevicesPerNode%nics
		cards := min(nics, m.siblings())
		return m.Network.Share(float64(cards) / float64(m.siblings())), int32(3*card + 3)
	}
	if m.Link.Shared == "node" {
		return m.Link.Share(1 / float64(m.siblings())), 3*m.Node(from) + 2
	}
	return m.Link, 3*from + 1
}

// Slowest is the link that bounds a ring over a group of ranks. Between nodes
// a group uses as many network cards as it has ranks on a node, if there are
// so many; groups that share a card are not slowed down by each other.
func (m *Machine) Slowest(ranks []int32) link.Link {
	nodes := m.perNode(ranks)
	if len(nodes) < 2 {
		return m.Link
	}
	siblings := m.siblings()
	cards := max(1, min(m.NICsPerNode, len(ranks)/len(nodes)*siblings))
	slow := m.Network
	slow.Collective = units.Rate(m.Network.BusBandwidth() * float64(cards) / float64(siblings))
	if len(ranks) > len(nodes) { // some steps stay inside a node
		slow.Collective = min(slow.Collective, units.Rate(m.Link.BusBandwidth()))
		slow.Latency = max(m.Link.Latency, m.Network.Latency)
		slow.Call = max(m.Link.Call, m.Network.Call)
		return slow.WithoutTables() // which are for one rank on each node
	}
	return slow.ShareTables(float64(cards) / float64(siblings))
}

// Group is Slowest, with what CollectiveTime needs to know of a group over
// several nodes to choose among algorithms.
func (m *Machine) Group(ranks []int32) link.Link {
	slow, nodes := m.Slowest(ranks), m.perNode(ranks)
	if len(nodes) < 2 {
		return slow
	}
	most := slices.Max(slices.Collect(maps.Values(nodes)))
	if perNode := len(ranks) / len(nodes); perNode > 1 && most*len(nodes) == len(ranks) { // as many on each
		across := m.Network
		across.Collective = units.Rate(across.BusBandwidth() * float64(max(1, min(m.NICsPerNode, perNode))))
		return slow.WithLevels(len(nodes), perNode, m.Link, across)
	}
	return slow
}

// perNode counts the ranks of a group on each node.
func (m *Machine) perNode(ranks []int32) map[int32]int {
	nodes := map[int32]int{}
	for _, r := range ranks {
		nodes[m.Node(r)]++
	}
	return nodes
}

// Nodes is the number of nodes that a number of ranks takes.
func (m *Machine) Nodes(ranks int) int {
	if ranks == 0 || m.DevicesPerNode == 0 {
		return min(1, ranks)
	}
	return (ranks*m.tensor() + m.DevicesPerNode - 1) / m.DevicesPerNode
}

// inner finds the link that bounds a ring over the devices of one rank.
func (m *Machine) inner() link.Link {
	single := *m
	single.Tensor = 1
	devices := make([]int32, m.tensor())
	for i := range devices {
		devices[i] = int32(i)
	}
	return single.Slowest(devices)
}

// Compute prices operations on a device of the machine, and what the devices of
// a rank exchange.
func (m *Machine) Compute(t arch.Training) (Compute, error) {
	c, err := NewCompute(m.Device, t)
	c.link, c.devices = m.inner(), m.tensor()
	return c, err
}
