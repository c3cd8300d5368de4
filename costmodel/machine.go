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

// A Device is one accelerator, or one core of a CPU. It is a rank of a graph.
type Device struct {
	Name        string `toml:"-"`
	Description string `toml:"description"`
	// Memory is its capacity; 0 means unknown.
	Memory          units.Bytes `toml:"memory"`
	MemoryBandwidth units.Rate  `toml:"memory_bandwidth"` // peak
	// Margin is the share of the memory to keep free, for fragmentation in the allocator and for
	// the driver and libraries.
	Margin float64 `toml:"-"`
	Peak   Peak    `toml:"flops"`
	// Rated is the catalog's peak of a device whose Peak was replaced by [machine.compute].
	Rated      Peak       `toml:"-"`
	Efficiency Efficiency `toml:"efficiency"`
	// Launch is the time to start one operation, whatever its size.
	Launch units.Duration `toml:"launch"`
	// HalfRows is the number of rows at which a matrix product reaches half of the achievable
	// rate: r rows reach r / (r + HalfRows) of it.
	HalfRows float64 `toml:"half_rows"`
	// HalfRowsFP32 is the same for products in fp32, whose tiles are not counted; 0 means HalfRows.
	HalfRowsFP32 float64 `toml:"half_rows_fp32"`
	// Multiprocessors is the number of units that compute products of 16-bit numbers tile by
	// tile; 0 means that tiles have no effect.
	Multiprocessors int `toml:"multiprocessors"`
	// SerialTiles: a multiprocessor writes a tile before it computes the next. Since Hopper
	// libraries have kernels that do both at the same time.
	SerialTiles bool `toml:"serial_tiles"`
	// Unaligned is the share of the rate that products of 16-bit numbers reach if the rows of a
	// matrix are not a multiple of 16 bytes, so that tensor cores cannot load them directly. 0
	// means the whole rate.
	Unaligned float64 `toml:"unaligned"`
	// UnalignedHeads is the same for the batched products of unfused attention if the features of
	// a head are not a multiple of 16 bytes; 0 means Unaligned.
	UnalignedHeads float64 `toml:"unaligned_heads"`
	// Attention is the rate of attention in one kernel over that of large products, for heads so
	// wide that only products count; 0 means unknown, for which 1 is used. Heads of HalfHead
	// features reach half of it.
	Attention float64 `toml:"attention"`
	HalfHead  float64 `toml:"half_head"`
	// HeadMultiple: the kernel pads the features of a head to a multiple of this; 0 means that it
	// does not pad.
	HeadMultiple int `toml:"head_multiple"`
	// Scan is the rate of the products of a scan over that of large products; 0 means unknown, for which 1 is used.
	Scan float64 `toml:"scan"`
	// Link names the device's own link to others of its node. It connects at most Domain devices;
	// 0 means unknown.
	Link   string `toml:"link"`
	Domain int    `toml:"domain"`
	// HostLink names the device's link to the memory of its host; "" means unknown, or that it
	// works in that memory.
	HostLink string `toml:"host_link"`
	// Microscaling: its products accept a scale for every 16 or 32 numbers.
	Microscaling bool `toml:"microscaling"`
	// Measured holds the measured times of the layers of the network MeasuredModel ("" if
	// unknown), and Updates those of optimizers.
	Measured      []Measured       `toml:"-"`
	MeasuredModel string           `toml:"-"`
	Updates       []MeasuredUpdate `toml:"-"`
	// Source has the source of each value, by key.
	Source map[string]string `toml:"source"`
}

// In returns the device with only the settings that price products in a precision: in fp32 tiles
// are not counted, and alignment has no effect.
func (d Device) In(precision string) Device {
	if precision == "fp32" {
		d.HalfRows = cmp.Or(d.HalfRowsFP32, d.HalfRows)
		d.Multiprocessors, d.SerialTiles, d.Unaligned, d.UnalignedHeads = 0, false, 0, 0
	}
	return d
}

// Peak is the peak rate of dense matrix products by precision; 0 for a precision that the device
// does not support. FP32 is without TF32.
type Peak struct {
	FP32 units.FLOPS `toml:"fp32"`
	TF32 units.FLOPS `toml:"tf32"`
	FP16 units.FLOPS `toml:"fp16"`
	BF16 units.FLOPS `toml:"bf16"`
	FP8  units.FLOPS `toml:"fp8"`
	FP4  units.FLOPS `toml:"fp4"`
}

// A PeakRate is the peak of dense products of one kind of numbers, and the share of it that large
// products reach; 0 means unknown.
type PeakRate struct {
	Name  string
	Peak  units.FLOPS
	Share float64
}

// Rates lists the device's rates, with zeros for kinds of numbers that it does not support.
func (d Device) Rates() []PeakRate {
	return []PeakRate{
		{"fp32", d.Peak.FP32, d.Efficiency.FP32},
		{"tf32", d.Peak.TF32, 0},
		{"fp16", d.Peak.FP16, d.Efficiency.FP16},
		{"bf16", d.Peak.BF16, d.Efficiency.BF16},
		{"fp8", d.Peak.FP8, d.Efficiency.FP8},
		{"fp4", d.Peak.FP4, d.Efficiency.FP4},
	}
}

// RateIn returns the rate of products in a precision of training.Options.
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

// PeakIn returns the dense peak in a precision of training.Options: that of the datasheet, or for
// a device that [machine.compute] describes, that of [machine.compute]. 0 means unknown.
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

// Achievable returns the rate in FLOP/s of large matrix products in a precision of
// training.Options.
func (d Device) Achievable(precision string) (float64, error) {
	scaled := precision == training.PrecisionMXFP8 || precision == training.PrecisionNVFP4
	if scaled && !d.Microscaling && d.Description != "" {
		return 0, fmt.Errorf("precision = %q: the device %s has no scales for blocks of 16 or 32 numbers "+
			"in its products; use fp8, with fp8_recipe = \"blockwise\" for blocks of 128", precision, d.Name)
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

// Usable returns the memory of the device without its margin, in bytes; 0 means unknown.
func (d Device) Usable() int64 { return int64(float64(d.Memory) * (1 - d.Margin)) }

// A Machine consists of equal devices in equal nodes, counted node by node. A rank stands for the
// T·C devices that divide its sequences among C tensor-parallel groups of T devices each, and that
// all do the same. Rank r is devices r·T·C to (r + 1)·T·C − 1; the devices of a tensor-parallel
// group have consecutive numbers.
type Machine struct {
	Device  Device
	Tensor  int // devices of a tensor-parallel group (T); 0 means 1
	Context int // tensor-parallel groups of a rank (C); 0 means 1
	// Stages and Replicas, unless 0, are the numbers of ranks of a replica and of replicas where
	// devices are counted over the replicas first: the rank of a stage is next to the rank of the
	// same stage in the next replica.
	Stages, Replicas int
	DevicesPerNode   int       // 0 means that all are in one node
	Link             link.Link // inside a node
	Network          link.Link // between nodes, per network card
	HostLink         link.Link // of every device, to its host's memory; zero means unknown, or not needed
	NICsPerNode      int       // 0 means 1
	// MemoryPerNode is the memory that the devices of a node share; 0 means unknown, or that they
	// share none.
	MemoryPerNode units.Bytes
	Host          HostTimes    // threads that launch tasks
	Cores         MachineCores // cores that ranks share
	// Spread is the standard deviation of the nodes' speeds over their mean.
	Spread float64
	Clock  float64 // speed of the devices over that of the catalog's; 0 means 1
}

// RankMemory returns the most memory that a rank may use: that of its device, or of its whole node,
// without the margin. 0 means unknown.
func (m *Machine) RankMemory() int64 {
	most := m.Device.Usable()
	if node := int64(float64(m.MemoryPerNode) * (1 - m.Device.Margin)); node > 0 && (most == 0 || node < most) {
		most = node
	}
	return most
}

// Compute prices operations on a device of the machine, and the exchanges among the devices of a
// rank.
func (m *Machine) Compute(t training.Options) (Compute, error) {
	c, err := NewCompute(m.Device, t)
	c.link, c.devices, c.contexts = m.inner(), m.tensor(), m.contexts()
	c.node, c.perNode = m.Link, m.DevicesPerNode
	return c, err
}

// The quantities in option structs, so that callers need not import package units.
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

// pace returns the computing time on the slowest node over that on an average node at the catalog's clock, since
// all others wait for the slowest: 1 for a single node at that clock. Speeds are taken to be normally distributed. By
// Blom's approximation (1958) the smallest of n draws is expected where (n − ⅜) / (n + ¼) of the
// distribution are above it.
func (m *Machine) pace(ranks int) float64 {
	n := float64(m.Nodes(ranks))
	above := (n - 0.375) / (n + 0.25)
	return (1 + m.Spread*math.Sqrt2*math.Erfinv(2*above-1)) / cmp.Or(m.Clock, 1)
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
	peak := &d.Peak
	for _, rate := range []*units.FLOPS{&peak.FP32, &peak.TF32, &peak.FP16, &peak.BF16, &peak.FP8, &peak.FP4} {
		*rate /= units.FLOPS(by)
	}
	d.MemoryBandwidth /= units.Rate(by)
	d.Launch = units.Duration(units.Nanoseconds(float64(d.Launch) * by))
	return d
}
