package costmodel

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"psim/costmodel/link"
	"psim/internal/nearest"
	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A Catalog holds the devices and links that are known by name.
type Catalog struct {
	Devices []Device
	Links   []link.Link
}

// MachineOptions is the [machine] section: a device by name or inline, and the links.
type MachineOptions struct {
	Device         string         `toml:"device"`
	File           string         `toml:"file"` // the caller reads it
	Compute        ComputeOptions `toml:"compute"`
	DevicesPerNode int            `toml:"devices_per_node"`
	Link           link.Options   `toml:"link"`
	Network        link.Options   `toml:"network"`
	HostLink       link.Options   `toml:"host_link"`
	NICsPerNode    int            `toml:"nics_per_node"`
	MemoryPerNode  units.Bytes    `toml:"memory_per_node"`
	Host           HostTimes      `toml:"host"`
	Cores          MachineCores   `toml:"cores"`
	MemoryMargin   float64        `toml:"memory_margin"`
	Spread         float64        `toml:"spread"`
	Clock          float64        `toml:"clock"`
	Site           string         `toml:"site"` // the caller reads it
	// Measured and Updates are the entries of [[machine.measured]] and [[machine.optimizer]].
	Measured      []Measured       `toml:"measured"`
	MeasuredModel string           `toml:"measured_model"`
	Updates       []MeasuredUpdate `toml:"optimizer"`
}

// Settings describes [machine].
func (MachineOptions) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "device", Example: `"a100-80gb-sxm"`, Shown: true, Unset: "[machine.compute]",
			Text: "its name in the catalog (psim list devices); or a machine of your own",
		},
		{
			Key: "file", Example: `"machine.toml"`, Unset: "none",
			Text: "a file with a [machine] section, such as psim calibrate writes, or a machine of the catalog " +
				"(psim list devices); other keys given here replace those of the file. Named by --set, it replaces " +
				"all of [machine]",
		},
		{
			Key: "devices_per_node", Example: "8", Range: setting.Count(), Unset: "all are in one node",
			Text: "devices of a node",
		},
		{
			Key: "link", Example: `"nvlink3-a100"`, Unset: "the device's own",
			Text: "link inside a node: its name in the catalog, or [machine.link], which describes one. Without a " +
				"bandwidth, [machine.link] changes the named link, or else the device's own",
		},
		{
			Key: "network", Example: `"ib-hdr"`, Unset: "none",
			Text: "link between nodes, for one network card: a name, or [machine.network], which describes one or " +
				"changes the named one",
		},
		{
			Key: "host_link", Example: `"pcie4"`, Idle: idleInCollective(), Unset: "the device's own, or none",
			Text: "link of every device to the memory of its host, for the copies of parallel.collectives = " +
				"\"gloo\", of train.offload_activations and of paged optimizers: a name, or [machine.host_link], " +
				"whose bandwidth and latency count",
		},
		{Key: "nics_per_node", Example: "1", Range: setting.Count(), Text: "network cards of a node", Unset: "1"},
		{
			Key: "memory_per_node", Idle: idleInCollective(),
			Example: `"4GB"`, Range: setting.Positive(),
			Unset: "each device has its own, or the amount is unknown",
			Text:  "memory that the devices of a node share, such as workers in a container",
		},
		{
			Key: "memory_margin", Idle: idleInCollective(),
			Default: 0.0, Range: setting.Range{Max: 1, BelowMax: true},
			Text: "share of the memory to keep free for uses that are not counted: a peak above the rest is close, " +
				"and searches reject it. With 0 close begins at 0.87 of the memory of a GPU or TPU, and only a " +
				"search with --devices rejects it, unless 0 is given. A stack says how much driver, communication " +
				"and allocator need (psim list stacks -v). Without a stack the uncounted uses are fragmentation " +
				"(PyTorch's: 0.15 on average, to 0.33, in Guo et al. 2024, GMLake), driver and workspaces",
		},
		{
			Key: "spread", Prices: []string{"products", "attention", "between", graph.Launches},
			Idle:    idleInCollective(),
			Default: 0.0, Range: setting.Between(0, 1),
			Text: "how much nodes differ in speed, as a standard deviation over the mean: all wait for the slowest " +
				"node, which is expected to be slower than the mean by 1.05 times this with 4 nodes, 1.8 with 16, " +
				"2.3 with 64, 3.2 with 1,024. It does not apply to measured layers",
		},
		{
			Key: "clock", Prices: []string{"products", "attention", "between", graph.Launches},
			Idle: idleInCollective(), Neutral: 1.0, Example: "0.97",
			Range: setting.Range{Max: 2, AboveMin: true}, Unset: "1",
			Text: "speed of the devices of this site over that of the catalog's, for power, cooling and age. It does " +
				"not apply to measured layers",
		},
		{
			Key: "site", Example: `"mysite.toml"`, Unset: "none", Idle: idleInCollective(),
			Text: "a file of what a cluster's own runs say of it, which psim calibrate --runs writes: clock, spread " +
				"and network.speedup, unless they are given, and how far off its runs are, for the interval",
		},
		{
			Key: "measured_model", Idle: idleInCollective(),
			Example: `"gpt-6x192"`, Unset: "none",
			Text: "the network whose layers [[machine.measured]] has, for warnings",
		},
		{
			Key: "compute", Idle: idleInCollective(),
			Text: "A device in place, or changes to the named one. Rates are achievable, not peak",
		},
		{
			Key: "host", Idle: idleInCollective(),

			Text: "The threads that launch kernels. On GPUs and TPUs the defaults are those of train.stack, or " +
				"without it those of model.kernels (psim list kernels -v), which are 0 for fused",
		},
		{
			Key: "cores", Idle: idleInCollective(),

			Text: "The cores of one machine, which all ranks share with its memory, as psim calibrate writes them",
		},
		{
			Key: "measured", Prices: []string{"measured"}, Idle: idleInCollective(),

			Text: "Measured times of a layer in fp32, as psim calibrate writes them; one entry for each size of " +
				"microbatch. Between and beyond these sizes, times follow straight lines. Layers that were not " +
				"measured are priced by [machine.compute]",
		},
		{Key: "optimizer", Idle: idleInCollective(), Text: "The measured time of a step of an optimizer in fp32"},
	}
}

// ComputeOptions is [machine.compute]: a device described in place, or
// changes to the named one.
type ComputeOptions struct {
	FLOPS           units.FLOPS     `toml:"flops"`
	Efficiency      float64         `toml:"efficiency"`
	MemoryBandwidth units.Rate      `toml:"memory_bandwidth"`
	Memory          units.Bytes     `toml:"memory"`
	Launch          *units.Duration `toml:"launch"`
	HalfRows        *float64        `toml:"half_rows"`
	Multiprocessors *int            `toml:"multiprocessors"`
	SerialTiles     *bool           `toml:"serial_tiles"`
	Unaligned       *float64        `toml:"unaligned"`
	UnalignedHeads  float64         `toml:"unaligned_heads"`
	Attention       float64         `toml:"attention"`
	HalfHead        *float64        `toml:"half_head"`
	Scan            float64         `toml:"scan"`
	HeadMultiple    *int            `toml:"head_multiple"`
	FLOPS8          units.FLOPS     `toml:"flops_fp8"`
	FLOPS4          units.FLOPS     `toml:"flops_fp4"`
	Efficiency8     float64         `toml:"efficiency_fp8"`
	Efficiency4     float64         `toml:"efficiency_fp4"`
}

// Settings describes [machine.compute].
func (ComputeOptions) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "flops", Prices: []string{"products", "attention"}, Factor: 2,
			Example: `"100TFLOP/s"`, Range: setting.Positive(), Unset: "the device's",
			Text: "rate that large matrix products reach",
		},
		{
			Key: "efficiency", Prices: []string{"products", "attention"},
			Neutral: 1.0, Needs: unlessGiven("machine.compute.flops"),
			Example: "0.6", Range: setting.Range{Max: 1, AboveMin: true}, Unset: "the device's",
			Text: "instead of flops: the share of the named device's 16-bit peak that large matrix products reach",
		},
		{
			Key: "flops_fp8", Prices: []string{"products"}, Factor: 2,
			Example: `"1PFLOP/s"`, Range: setting.Positive(), Unset: "the device's",
			Text: "the same for products with operands of 8 bits",
		},
		{
			Key: "flops_fp4", Prices: []string{"products"}, Factor: 2,
			Example: `"2PFLOP/s"`, Range: setting.Positive(), Unset: "the device's",
			Text: "the same for products with operands of 4 bits",
		},
		{
			Key: "efficiency_fp8", Prices: []string{"products"},
			Neutral: 1.0, Needs: unlessGiven("machine.compute.flops_fp8"),
			Example: "0.6", Range: setting.Range{Max: 1, AboveMin: true}, Unset: "the device's",
			Text: "instead of flops_fp8, like efficiency",
		},
		{
			Key: "efficiency_fp4", Prices: []string{"products"},
			Neutral: 1.0, Needs: unlessGiven("machine.compute.flops_fp4"),
			Example: "0.6", Range: setting.Range{Max: 1, AboveMin: true}, Unset: "the device's",
			Text: "instead of flops_fp4, like efficiency",
		},
		{
			Key:    "memory_bandwidth",
			Prices: []string{"between", "products", "attention", graph.Averaging, graph.Updating}, Factor: 2,
			Example: `"1TB/s"`, Range: setting.Positive(), Unset: "the device's, or unlimited",
			Text: "what large copies reach",
		},
		{
			Key: "memory", Example: `"40GB"`, Range: setting.Positive(),
			Unset: "the device's, or not known, so that everything fits",
			Text:  "its capacity",
		},
		{
			Key: "launch", Prices: []string{graph.Launches, graph.Averaging, graph.Updating}, Try: []string{"0us"},
			Example: `"5us"`,
			Text:    "what starting one operation costs", Unset: "the device's, or 0us",
		},
		{
			Key: "half_rows", Prices: []string{"products", unfusedAttention},
			Example: "128.0", Range: setting.Between(0, math.MaxInt32), Unset: "the device's, or 0",
			Text: "rows at which a matrix product reaches half of flops",
		},
		{
			Key: "multiprocessors", Prices: []string{"products", unfusedAttention},
			Example: "108", Range: setting.Between(0, math.MaxInt32),
			Unset: "the device's, or 0",
			Text:  "those that compute 16-bit products in tiles of 64 × 64, all at a time; 0: tiles do not matter",
		},
		{
			Key: "serial_tiles", Prices: []string{"products", unfusedAttention},
			Example: "true", Unset: "the device's, or false",
			Text: "true: one of these writes a tile before it computes the next, as before NVIDIA's Hopper; false: " +
				"meanwhile",
		},
		{
			Key: "unaligned", Prices: []string{unalignedProducts, unalignedScoresToo},
			Example: "1.0", Range: setting.Range{Max: 1, AboveMin: true}, Unset: "the device's, or 1",
			Text: "share of flops that 16-bit products reach if the rows of a matrix are not a multiple of 16 bytes",
		},
		{
			Key: "unaligned_heads", Prices: []string{unalignedScores},
			Example: "0.06", Range: setting.Range{Max: 1, AboveMin: true},
			Unset: "the device's, or as unaligned",
			Text: "the same for the batched products of unfused attention, if the features of a head are not a " +
				"multiple of 16 bytes",
		},
		{
			Key: "attention", Prices: []string{fusedAttention},
			Example: "0.8", Range: setting.Range{Max: 4, AboveMin: true}, Unset: "the device's, or 1",
			Text: "rate of attention in one kernel over flops, with wide heads; counted without what a causal mask " +
				"or a window covers",
		},
		{
			Key: "half_head", Prices: []string{fusedAttention},
			Example: "40.0", Range: setting.Between(0, math.MaxInt32), Unset: "the device's, or 0",
			Text: "features of a head with which it reaches half of that",
		},
		{
			Key: "head_multiple", Prices: []string{fusedAttention},
			Example: "128", Range: setting.Between(0, math.MaxInt32), Unset: "the device's, or 0",
			Text: "its kernel pads the features of a head to a multiple of these; 0: it pads nothing",
		},
		{
			Key: "scan", Prices: []string{scans},
			Example: "0.4", Range: setting.Range{Max: 1, AboveMin: true}, Unset: "the device's, or 1",
			Text: "rate of the products of scans (Mamba-2, gated delta nets) over flops; what scans move takes its " +
				"time besides",
		},
	}
}

// Machine looks the names up and puts the machine together.
func (o MachineOptions) Machine(c Catalog) (Machine, error) {
	m := Machine{
		DevicesPerNode: o.DevicesPerNode, NICsPerNode: o.NICsPerNode, MemoryPerNode: o.MemoryPerNode,
		Host: o.Host, Cores: o.Cores, Spread: o.Spread, Clock: o.Clock,
	}
	err := setting.Validate(o)
	if err != nil {
		return m, err
	}
	if m.Device, err = o.device(c); err != nil {
		return m, err
	}
	if m.Link, err = o.Link.Over(m.Device.Link).Link(c.Links, "link"); err != nil {
		return m, err
	}
	if m.Network, err = o.Network.Link(c.Links, "network"); err != nil {
		return m, err
	}
	m.HostLink, err = o.HostLink.Over(m.Device.HostLink).Link(c.Links, "host_link")
	return m, err
}

// device finds the named device, with the changes of [machine.compute].
func (o MachineOptions) device(c Catalog) (Device, error) {
	d := Device{Name: "inline", Efficiency: Efficiency{FP32: 1, FP16: 1, BF16: 1, Memory: 1}}
	if o.Device != "" {
		i := slices.IndexFunc(c.Devices, func(d Device) bool { return d.Name == o.Device })
		if i < 0 {
			var names []string
			for _, d := range c.Devices {
				names = append(names, d.Name)
			}
			return d, fmt.Errorf("device = %q: not in the catalog%s (psim list devices)",
				o.Device, nearest.Suggest(o.Device, names))
		}
		if d = c.Devices[i]; o.Compute.FLOPS+o.Compute.FLOPS8+o.Compute.FLOPS4 > 0 {
			d.Rated = d.Peak
		}
	}
	o.Compute.change(&d)
	d.Margin = o.MemoryMargin
	d.Measured, d.MeasuredModel, d.Updates = o.Measured, o.MeasuredModel, o.Updates
	if _, err := newCurves(d.Measured); err != nil {
		return d, err
	}
	return d, checkUpdates(d.Updates)
}

// change changes a device by the keys that are given.
func (o ComputeOptions) change(d *Device) {
	if o.Efficiency > 0 {
		d.Efficiency.FP16, d.Efficiency.BF16 = o.Efficiency, o.Efficiency
	}
	if o.FLOPS > 0 {
		d.Peak.FP32, d.Peak.TF32, d.Peak.FP16, d.Peak.BF16 = o.FLOPS, o.FLOPS, o.FLOPS, o.FLOPS
		d.Efficiency.FP32, d.Efficiency.FP16, d.Efficiency.BF16 = 1, 1, 1
	}
	o.changeNarrow(d)
	if o.MemoryBandwidth > 0 {
		d.MemoryBandwidth, d.Efficiency.Memory = o.MemoryBandwidth, 1
	}
	if o.Memory > 0 {
		d.Memory = o.Memory
	}
	if o.Launch != nil {
		d.Launch = *o.Launch
	}
	if o.HalfRows != nil {
		d.HalfRows, d.HalfRowsFP32 = *o.HalfRows, 0
	}
	if o.Multiprocessors != nil {
		d.Multiprocessors = *o.Multiprocessors
	}
	if o.SerialTiles != nil {
		d.SerialTiles = *o.SerialTiles
	}
	if o.Unaligned != nil {
		d.Unaligned = *o.Unaligned
	}
	d.UnalignedHeads = cmp.Or(o.UnalignedHeads, d.UnalignedHeads)
	d.Attention, d.Scan = cmp.Or(o.Attention, d.Attention), cmp.Or(o.Scan, d.Scan)
	if o.HalfHead != nil {
		d.HalfHead = *o.HalfHead
	}
	if o.HeadMultiple != nil {
		d.HeadMultiple = *o.HeadMultiple
	}
}

// changeNarrow changes the rates of products in 8 and in 4 bits.
func (o ComputeOptions) changeNarrow(d *Device) {
	d.Efficiency.FP8 = cmp.Or(o.Efficiency8, d.Efficiency.FP8)
	d.Efficiency.FP4 = cmp.Or(o.Efficiency4, d.Efficiency.FP4)
	if o.FLOPS8 > 0 {
		d.Peak.FP8, d.Efficiency.FP8 = o.FLOPS8, 1
	}
	if o.FLOPS4 > 0 {
		d.Peak.FP4, d.Efficiency.FP4 = o.FLOPS4, 1
	}
}
