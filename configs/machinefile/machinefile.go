// Package machinefile writes machine files, which machine.file of a configuration names.
package machinefile

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/BurntSushi/toml"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/internal/units"
)

// The first lines of the machine files that psim writes: of measured layers, and of links.
const (
	machineMark = "# A machine file, written by psim calibrate."
	linkMark    = "# A machine file, written by psim calibrate --nccl."
)

// computeTable and linkTable hold the values of a device and a link that are written.
type computeTable struct {
	FLOPS           units.FLOPS    `toml:"flops"`
	MemoryBandwidth units.Rate     `toml:"memory_bandwidth,omitzero"`
	Memory          units.Bytes    `toml:"memory,omitzero"`
	Launch          units.Duration `toml:"launch"`
	HalfRows        float64        `toml:"half_rows,omitzero"`
}

type linkTable struct {
	Bandwidth  units.Rate     `toml:"bandwidth"`
	Latency    units.Duration `toml:"latency"`
	Collective units.Rate     `toml:"collective_bandwidth,omitzero"`
	Call       units.Duration `toml:"collective_call,omitzero"`
	Shared     string         `toml:"shared,omitempty"`
	Algorithm  string         `toml:"algorithm,omitempty"`
}

// Write writes the device and the link of a machine as a machine file, which machine.file reads
// back to the same numbers. The lines of comment say what was measured, and where. The device
// needs a rate for fp32, the only one that is written.
func Write(w io.Writer, m costmodel.Machine, comment []string) error {
	d, l := m.Device, m.Link
	flops, err := d.Achievable("fp32")
	if err != nil {
		return err
	}
	var sections []section
	if d.MeasuredModel != "" {
		sections = append(sections, section{"[machine]", map[string]string{"measured_model": d.MeasuredModel}})
	}
	sections = append(sections, section{"[machine.compute]", computeTable{
		FLOPS:           units.FLOPS(flops),
		MemoryBandwidth: units.Rate(float64(d.MemoryBandwidth) * d.Efficiency.Memory),
		Memory:          d.Memory, Launch: d.Launch, HalfRows: cmp.Or(d.HalfRowsFP32, d.HalfRows),
	}})
	if m.Cores.Number > 0 {
		sections = append(sections, section{"[machine.cores]", m.Cores})
	}
	sections = append(sections, linkSections("link", l)...)
	for _, u := range d.Updates {
		sections = append(sections, section{"[[machine.optimizer]]", u})
	}
	for _, x := range d.Measured {
		sections = append(sections, section{"[[machine.measured]]", x})
	}
	return writeSections(w, machineMark, comment, sections)
}

// WriteLink writes a machine file with only a link and a network, if they have a bandwidth. A
// configuration that names the file must also name a device.
func WriteLink(w io.Writer, l, network link.Link, comment []string) error {
	return writeSections(w, linkMark, comment, append(linkSections("link", l), linkSections("network", network)...))
}

// linkSections returns the tables of a link or network and of its measured collectives.
func linkSections(key string, l link.Link) []section {
	if l.Bandwidth == 0 {
		return nil
	}
	table := linkTable{l.Bandwidth, l.Latency, l.Collective, l.Call, l.Shared, l.Algorithm}
	sections := []section{{"[machine." + key + "]", table}}
	for _, t := range l.Tables() {
		for _, r := range t.Ranges {
			sections = append(sections, section{"[[machine." + key + "." + t.Key + "]]", r})
		}
	}
	for _, m := range l.Measured {
		sections = append(sections, section{"[[machine." + key + ".measured]]", m})
	}
	return sections
}

func writeSections(w io.Writer, mark string, comment []string, sections []section) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, mark)
	for _, line := range comment {
		fmt.Fprintln(&b, strings.TrimRight("# "+printable(line), " "))
	}
	for _, s := range sections {
		fmt.Fprintf(&b, "\n%s\n", s.header)
		if err := toml.NewEncoder(&b).Encode(s.table); err != nil {
			return fmt.Errorf("%s: %w", s.header, err)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

type section struct {
	header string
	table  any
}

// printable removes characters that a comment may not contain.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return -1
		}
		return r
	}, line)
}
