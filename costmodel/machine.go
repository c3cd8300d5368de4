package costmodel

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

	"psim/costmodel/link"
	"psim/costmodel/training"
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
	// HalfRowsFP32 is that of products in fp32, whose tiles are not counted; 0 means HalfRows.
	HalfRowsFP32 float64 `toml:"half_rows_fp32"`
	// Multiprocessors compute products of 16-bit numbers tile by tile, as many at a
	// time; 0 where tiles do not matter.
	Multiprocessors int `toml:"multiprocessors"`
	// SerialTiles: a multiprocessor writes a tile before it computes the next. From Hopper
	// on libraries have kernels that do both at a time.
	SerialTiles bool `toml:"serial_tiles"`
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
	// HeadMultiple is what the kernel pads the features of a head to a multiple of; 0 is none.
	HeadMultiple int `toml:"head_multiple"`
	// Link names the link between devices of a node that it comes with, which joins at most
	// Domain of them; 0 is not known.
	Link   string `toml:"link"`
	Domain int    `toml:"domain"`
	// Microscaling: its products take a scale for every 16 or 32 numbers.
	Microscaling bool `toml:"microscaling"`
	// Measured is what layers took on it, those of the network MeasuredModel
	// ("" if not known), and Updates what optimizers did.
	Measured      []Measured       `toml:"-"`
	MeasuredModel string           `toml:"-"`
	Updates       []MeasuredUpdate `toml:"-"`
	// Source says, by key, where a value is from.
	Source map[string]string `toml:"source"`
}

// In returns the device with those settings alone that price products in a precision: in
// fp32 tiles are not counted, and rows need not be aligned.
func (d Device) In(precision string) Device {
	if precision == "fp32" {
		d.HalfRows = cmp.Or(d.HalfRowsFP32, d.HalfRows)
		d.Multiprocessors, d.SerialTiles, d.Unaligned, d.UnalignedHeads = 0, false, 0, 0
	}
	return d
}

// Peak is the rate of dense matrix products by precision; 0 where the device
// has none. FP32 is without TF32.
type Peak struct {
	FP32 units.FLOPS `toml:"fp32"`
	TF32 units.FLOPS `toml:"tf32"`
	FP16 units.FLOPS `toml:"fp16"`
	BF16 units.FLOPS `toml:"bf16"`
	FP8  units.FLOPS `toml:"fp8"`
	FP4  units.FLOPS `toml:"fp4"`
}

// A PeakRate is the peak of dense products of one kind of numbers, and the share of it that
// large ones reach; 0 is not known.
type PeakRate struct {
	Name  string
	Peak  units.FLOPS
	Share float64
}

// Rates lists what the device has, with zeros for what it has not.
func (d Device) Rates() []PeakRate {
	return []PeakRate{
		{"fp32", d.Peak.FP32, d.Efficiency.FP32}, {"tf32", d.Peak.TF32, 0}, {"fp16", d.Peak.FP16, d.Efficiency.FP16},
		{"bf16", d.Peak.BF16, d.Efficiency.BF16}, {"fp8", d.Peak.FP8, d.Efficiency.FP8}, {"fp4", d.Peak.FP4, d.Efficiency.FP4},
	}
}

// RateIn is the rate of products in a precision of training.Options.
func (d Device) RateIn(precision string) PeakRate {
	name := precision
	switch precision {
	case "":
		name = "fp32"
	case "mxfp8":
		name = "fp8"
	case "nvfp4":
		name = "fp4"
	}
	for _, r := range d.Rates() {
		if r.Name == name {
			return r
		}
	}
	return PeakRate{Name: name}
}

// PeakIn is the dense peak in a precision of training.Options, as its datasheet has it
// or, of a device described in place, as [machine.compute] does; 0 is not known.
func (d Device) PeakIn(precision string) units.FLOPS {
	if d.Rated != (Peak{}) {
		d.Peak = d.Rated
	}
	return d.RateIn(precision).Peak
}

// Efficiency is the share of the peaks that large operations reach.
type Efficiency struct {
	FP32   float64 `toml:"fp32"`
	FP16   float64 `toml:"fp16"`
	BF16   float64 `toml:"bf16"`
	FP8    float64 `toml:"fp8"`
	FP4    float64 `toml:"fp4"`
	Memory float64 `toml:"memory"`
}

// Achievable is the rate in FLOP/s of large matrix products in a precision of
// training.Options.
func (d Device) Achievable(precision string) (float64, error) {
	if narrow := precision == training.PrecisionMXFP8 || precision == training.PrecisionNVFP4; narrow && !d.Microscaling && d.Description != "" {
		return 0, fmt.Errorf("precision = %q: the device %s has no scales for blocks of 16 or 32 numbers in its products; use fp8, with fp8_recipe = \"blockwise\" for blocks of 128", precision, d.Name)
	}
	rate := d.RateIn(precision)
	if reached := float64(rate.Peak) * rate.Share; reached > 0 && !math.IsInf(reached, 0) {
		return reached, nil
	}
	var has []string
	for _, r := range d.Rates() {
		if r.Peak > 0 && r.Share > 0 {
			has = append(has, r.Name)
		}
	}
	text := fmt.Sprintf("precision = %q: the device %s has no rate for it", precision, d.Name)
	if len(has) > 0 {
		text += "; it has " + strings.Join(has, ", ")
	}
	if rate.Name == "fp8" || rate.Name == "fp4" {
		text += "; machine.compute.flops_" + rate.Name + " would give one"
	}
	return 0, errors.New(text)
}

// Usable is the memory of the device without its margin, in bytes; 0 is not known.
func (d Device) Usable() int64 { return int64(float64(d.Memory) * (1 - d.Margin)) }

// A Machine is equal devices in equal nodes, counted node by node. A rank
// stands for the T devices of each of the C tensor-parallel groups that divide its
// sequences, which all do the same: rank r is devices r·T·C to (r + 1)·T·C − 1, of which
// those of a tensor-parallel group lie side by side.
type Machine struct {
	Device  Device
	Tensor  int // devices of a tensor-parallel group (T); 0 means 1
	Context int // such groups of a rank (C); 0 means 1
	// Stages and Replicas are the ranks of a replica and the replicas, where devices
	// are counted replica by replica first, as in Megatron: rank r of stage r mod Stages
	// lies beside the same stage's of the next replica. Otherwise 0.
	Stages, Replicas int
	DevicesPerNode   int       // 0: all in one node
	Link             link.Link // inside a node
	Network          link.Link // between nodes, per network card
	NICsPerNode      int       // 0 means 1
	// MemoryPerNode is what the devices of a node share; 0 is not known, or none.
	MemoryPerNode units.Bytes
	Host          HostTimes    // what launches tasks
	Cores         MachineCores // that ranks share
	// Spread is the standard deviation of the nodes' speeds over their mean.
	Spread float64
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

// Compute prices operations on a device of the machine, and what the devices of
// a rank exchange.
func (m *Machine) Compute(t training.Options) (Compute, error) {
	c, err := NewCompute(m.Device, t)
	c.link, c.devices, c.contexts = m.inner(), m.tensor(), m.contexts()
	c.node, c.perNode = m.Link, m.DevicesPerNode
	return c, err
}

// The quantities in option structs, as those who fill them in name them.
type (
	// Bytes is an amount of memory.
	Bytes = units.Bytes
	// Duration is a time.Duration that prints as configurations write it.
	Duration = units.Duration
	// Rate is in bytes per second.
	Rate = units.Rate
	// FLOPS is in floating-point operations per second.
	FLOPS = units.FLOPS
)

// pace returns how many times as long as on an average node the devices of the slowest
// one compute, for which all others wait: 1 on a single node. Speeds differ like draws
// from a normal distribution, and the least of n draws is expected, by Blom's
// approximation (1958), where (n − ⅜) / (n + ¼) of the distribution lie above it.
func (m *Machine) pace(ranks int) float64 {
	n := float64(m.Nodes(ranks))
	above := (n - 0.375) / (n + 0.25)
	return 1 + m.Spread*math.Sqrt2*math.Erfinv(2*above-1)
}

// slowest returns the machine with the devices of its slowest node.
func (m Machine) slowest(ranks int) *Machine {
	m.Device = m.Device.slower(m.pace(ranks))
	return &m
}

// slower divides all rates of the roofline by a number.
func (d Device) slower(by float64) Device {
	if by == 1 {
		return d
	}
	for _, rate := range []*units.FLOPS{&d.Peak.FP32, &d.Peak.TF32, &d.Peak.FP16, &d.Peak.BF16, &d.Peak.FP8, &d.Peak.FP4} {
		*rate /= units.FLOPS(by)
	}
	d.MemoryBandwidth /= units.Rate(by)
	d.Launch = units.Duration(units.Nanoseconds(float64(d.Launch) * by))
	return d
}
