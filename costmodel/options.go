package costmodel

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"psim/internal/nearest"
	"psim/internal/units"
)

// A Catalog is the devices and links that are known by name.
type Catalog struct {
	Devices []Device
	Links   []Link
}

// MachineOptions is the [machine] section: a device by name or inline, and
// the links.
type MachineOptions struct {
	Device         string         `toml:"device"`
	File           string         `toml:"file"` // a machine file, to be read by the caller
	Compute        ComputeOptions `toml:"compute"`
	DevicesPerNode int            `toml:"devices_per_node"` // 0: all in one node
	Link           LinkOptions    `toml:"link"`
	Network        LinkOptions    `toml:"network"`
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

// LinkOptions is a link by name, link = "pcie4", or in place, [machine.link].
// Keys that come after a name change that link; what they say of collectives goes
// before what was measured of it, so that its tables are dropped.
type LinkOptions struct {
	Name string
	keys map[string]any
}

// UnmarshalTOML reads a name or a table, over what is there.
func (o *LinkOptions) UnmarshalTOML(value any) error {
	switch v := value.(type) {
	case string:
		*o = LinkOptions{Name: v}
		return nil
	case map[string]any:
		if err := new(Link).fill(v); err != nil {
			return err
		}
		keys := maps.Clone(v)
		for key, value := range o.keys {
			if _, given := keys[key]; !given {
				keys[key] = value
			}
		}
		o.keys = keys
		return nil
	}
	return errors.New(`a link is a name (psim list devices), or a table with bandwidth = "25GB/s" and latency = "5us"`)
}

// fill sets the keys of a link.
func (l *Link) fill(table map[string]any) error {
	parse := map[string]func(string) error{
		"bandwidth":            func(s string) error { return l.Bandwidth.UnmarshalText([]byte(s)) },
		"latency":              func(s string) error { return l.Latency.UnmarshalText([]byte(s)) },
		"collective_bandwidth": func(s string) error { return l.Collective.UnmarshalText([]byte(s)) },
		"collective_call":      func(s string) error { return l.Call.UnmarshalText([]byte(s)) },
		"shared": func(s string) error {
			if l.Shared = s; s != "device" && s != "node" {
				return fmt.Errorf(`%q is unknown; legal are "device" and "node"`, s)
			}
			return nil
		},
		"algorithm": func(s string) error {
			l.Algorithm = s
			return checkAlgorithm(s)
		},
	}
	legal := []string{"bandwidth", "latency", "collective_bandwidth", "collective_call", "shared", "algorithm"}
	tables := map[string]CollectiveTable{}
	for _, t := range l.Tables() {
		tables[t.Key], legal = t, append(legal, t.Key)
	}
	keys := make([]string, 0, len(table))
	for key := range table {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if t, ok := tables[key]; ok {
			ranges, err := readRanges(key, table[key])
			if err != nil {
				return err
			}
			l.setTable(t.Kind, ranges)
			continue
		}
		set, ok := parse[key]
		if !ok {
			return fmt.Errorf("%s: is no key of a link%s (legal are %s)", key, nearest.Suggest(key, legal), strings.Join(legal, ", "))
		}
		if err := set(fmt.Sprint(table[key])); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// Machine looks the names up and puts the machine together.
func (o MachineOptions) Machine(c Catalog) (Machine, error) {
	m := Machine{DevicesPerNode: o.DevicesPerNode, NICsPerNode: o.NICsPerNode, Host: o.Host}
	switch {
	case o.DevicesPerNode < 0:
		return m, fmt.Errorf("devices_per_node = %d: there must be at least 1", o.DevicesPerNode)
	case o.NICsPerNode < 0:
		return m, fmt.Errorf("nics_per_node = %d: there must be at least 1", o.NICsPerNode)
	}
	if err := o.Host.Validate(); err != nil {
		return m, fmt.Errorf("host.%w", err)
	}
	var err error
	if m.Device, err = o.device(c); err != nil {
		return m, err
	}
	link := o.Link
	if link.Name == "" && link.keys == nil {
		link.Name = m.Device.Link
	}
	if m.Link, err = link.link(c, "link"); err != nil {
		return m, err
	}
	m.Network, err = o.Network.link(c, "network")
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
	compute := o.Compute
	if h := compute.HalfRows; h != nil && !(*h >= 0 && *h <= math.MaxInt32) {
		return d, fmt.Errorf("compute.half_rows = %v: a number of rows, 0 or more, is wanted", *h)
	}
	if compute.FLOPS > 0 {
		d.Peak = Peak{compute.FLOPS, compute.FLOPS, compute.FLOPS, compute.FLOPS}
		d.Efficiency.FP32, d.Efficiency.FP16, d.Efficiency.BF16 = 1, 1, 1
	}
	if compute.MemoryBandwidth > 0 {
		d.MemoryBandwidth, d.Efficiency.Memory = compute.MemoryBandwidth, 1
	}
	if compute.Memory > 0 {
		d.Memory = compute.Memory
	}
	if compute.Launch != nil {
		d.Launch = *compute.Launch
	}
	if compute.HalfRows != nil {
		d.HalfRows = *compute.HalfRows
	}
	if u := compute.Unaligned; u != nil {
		if !(*u > 0 && *u <= 1) {
			return d, fmt.Errorf("compute.unaligned = %v: a share of the rate, above 0 and up to 1, is wanted", *u)
		}
		d.Unaligned = *u
	}
	if !(o.MemoryMargin >= 0 && o.MemoryMargin < 1) {
		return d, fmt.Errorf("memory_margin = %v: a share of the device's memory, from 0 to less than 1, is wanted", o.MemoryMargin)
	}
	d.Margin = o.MemoryMargin
	d.Measured, d.MeasuredModel, d.Updates = o.Measured, o.MeasuredModel, o.Updates
	if _, err := newCurves(d.Measured); err != nil {
		return d, err
	}
	return d, checkUpdates(d.Updates)
}

// link puts a link together; without a name and keys there is none.
func (o LinkOptions) link(c Catalog, key string) (Link, error) {
	if o.Name == "" && o.keys == nil {
		return Link{}, nil
	}
	l := Link{Name: "inline"}
	if o.Name != "" {
		var ok bool
		if l, ok = c.link(o.Name); !ok {
			return l, fmt.Errorf("%s = %q: not in the catalog%s (psim list devices)", key, o.Name, nearest.Suggest(o.Name, c.linkNames()))
		}
	}
	for _, key := range []string{"latency", "collective_bandwidth", "collective_call", "algorithm"} {
		if _, given := o.keys[key]; given {
			l = l.withoutTables()
		}
	}
	if err := l.fill(o.keys); err != nil {
		return l, err
	}
	if l.Bandwidth <= 0 {
		return l, fmt.Errorf(`%s: bandwidth is missing or zero; write for example bandwidth = "25GB/s"`, key)
	}
	return l, nil
}

func (c Catalog) link(name string) (Link, bool) {
	i := slices.IndexFunc(c.Links, func(l Link) bool { return l.Name == name })
	if i < 0 {
		return Link{}, false
	}
	return c.Links[i], true
}

func (c Catalog) linkNames() []string {
	var names []string
	for _, l := range c.Links {
		names = append(names, l.Name)
	}
	return names
}
