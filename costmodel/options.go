package costmodel

import (
	"fmt"
	"math"
	"slices"

	"psim/costmodel/link"
	"psim/internal/nearest"
	"psim/internal/units"
)

// A Catalog is the devices and links that are known by name.
type Catalog struct {
	Devices []Device
	Links   []link.Link
}

// MachineOptions is the [machine] section: a device by name or inline, and
// the links.
type MachineOptions struct {
	Device         string         `toml:"device"`
	File           string         `toml:"file"` // a machine file, to be read by the caller
	Compute        ComputeOptions `toml:"compute"`
	DevicesPerNode int            `toml:"devices_per_node"` // 0: all in one node
	Link           link.Options   `toml:"link"`
	Network        link.Options   `toml:"network"`
	NICsPerNode    int            `toml:"nics_per_node"`
	Host           Host           `toml:"host"`
	MemoryMargin   float64        `toml:"memory_margin"` // share of the memory to stay free
	// Measured and Updates are entries of [[machine.measured]] and
	// [[machine.optimizer]]: what layers and optimizers took on the device.
	// MeasuredModel names the network whose layers these are.
	Measured      []Measured       `toml:"measured"`
	MeasuredModel string           `toml:"measured_model"`
	Updates       []MeasuredUpdate `toml:"optimizer"`
}

// ComputeOptions is [machine.compute]: a device described in place, or
// changes to the named one. Rates are achievable, not peak.
type ComputeOptions struct {
	FLOPS           units.FLOPS     `toml:"flops"`
	MemoryBandwidth units.Rate      `toml:"memory_bandwidth"`
	Memory          units.Bytes     `toml:"memory"`
	Launch          *units.Duration `toml:"launch"`
	HalfRows        *float64        `toml:"half_rows"`
	Unaligned       *float64        `toml:"unaligned"`
}

// Machine looks the names up and puts the machine together.
func (o MachineOptions) Machine(c Catalog) (Machine, error) {
	m := Machine{DevicesPerNode: o.DevicesPerNode, NICsPerNode: o.NICsPerNode, Host: o.Host}
	switch {
	case o.DevicesPerNode < 0:
		return m, fmt.Errorf("devices_per_node = %d: must be at least 1", o.DevicesPerNode)
	case o.NICsPerNode < 0:
		return m, fmt.Errorf("nics_per_node = %d: must be at least 1", o.NICsPerNode)
	}
	if err := o.Host.Validate(); err != nil {
		return m, fmt.Errorf("host.%w", err)
	}
	var err error
	if m.Device, err = o.device(c); err != nil {
		return m, err
	}
	inNode := o.Link
	if !inNode.Given() {
		inNode.Name = m.Device.Link
	}
	if m.Link, err = inNode.Link(c.Links, "link"); err != nil {
		return m, err
	}
	m.Network, err = o.Network.Link(c.Links, "network")
	return m, err
}

// device is the named one, with the changes of [machine.compute].
func (o MachineOptions) device(c Catalog) (Device, error) {
	d := Device{Name: "inline", Efficiency: Efficiency{1, 1, 1, 1}}
	if o.Device != "" {
		i := slices.IndexFunc(c.Devices, func(d Device) bool { return d.Name == o.Device })
		if i < 0 {
			var names []string
			for _, d := range c.Devices {
				names = append(names, d.Name)
			}
			return d, fmt.Errorf("device = %q: not in the catalog%s (psim list devices)", o.Device, nearest.Suggest(o.Device, names))
		}
		d = c.Devices[i]
	}
	if err := o.Compute.change(&d); err != nil {
		return d, fmt.Errorf("compute.%w", err)
	}
	if !(o.MemoryMargin >= 0 && o.MemoryMargin < 1) {
		return d, fmt.Errorf("memory_margin = %v: must be a share of the device's memory, from 0 to less than 1", o.MemoryMargin)
	}
	d.Margin = o.MemoryMargin
	d.Measured, d.MeasuredModel, d.Updates = o.Measured, o.MeasuredModel, o.Updates
	if _, err := newCurves(d.Measured); err != nil {
		return d, err
	}
	return d, checkUpdates(d.Updates)
}

// change changes a device by the keys that are given.
func (o ComputeOptions) change(d *Device) error {
	if o.FLOPS > 0 {
		d.Peak = Peak{o.FLOPS, o.FLOPS, o.FLOPS, o.FLOPS}
		d.Efficiency.FP32, d.Efficiency.FP16, d.Efficiency.BF16 = 1, 1, 1
	}
	if o.MemoryBandwidth > 0 {
		d.MemoryBandwidth, d.Efficiency.Memory = o.MemoryBandwidth, 1
	}
	if o.Memory > 0 {
		d.Memory = o.Memory
	}
	if o.Launch != nil {
		d.Launch = *o.Launch
	}
	if h := o.HalfRows; h != nil {
		if !(*h >= 0 && *h <= math.MaxInt32) {
			return fmt.Errorf("half_rows = %v: must be a number of rows, 0 or more", *h)
		}
		d.HalfRows = *h
	}
	if u := o.Unaligned; u != nil {
		if !(*u > 0 && *u <= 1) {
			return fmt.Errorf("unaligned = %v: must be a share of the rate, above 0 and up to 1", *u)
		}
		d.Unaligned = *u
	}
	return nil
}
