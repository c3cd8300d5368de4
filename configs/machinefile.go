package configs

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

// What begins the machine files that psim writes: of measured layers, and of links.
const (
	machineMark = "# A machine file, written by psim calibrate."
	linkMark    = "# A machine file, written by psim calibrate --nccl."
)

// WrittenMachine reports whether a text is what WriteMachine has written, so that it
// may be replaced.
func WrittenMachine(data []byte) bool { return bytes.HasPrefix(data, []byte(machineMark)) }

// WrittenLink reports the same of WriteLink.
func WrittenLink(data []byte) bool { return bytes.HasPrefix(data, []byte(linkMark)) }

// computeTable and linkTable are what is written of a device and a link.
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

// WriteMachine writes the device and the link of a machine as a machine file,
// which machine.file reads back to the same numbers. The lines of comment say
// what was measured, on what. A device has to have a rate for fp32, which is
// all that a file says of its rates.
func WriteMachine(w io.Writer, m costmodel.Machine, comment []string) error {
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
		units.FLOPS(flops), units.Rate(float64(d.MemoryBandwidth) * d.Efficiency.Memory), d.Memory, d.Launch, cmp.Or(d.HalfRowsFP32, d.HalfRows),
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

// WriteLink writes a machine file that has a link and a network alone, those of them that
// have a bandwidth; the device is to be named beside the file.
func WriteLink(w io.Writer, l, network link.Link, comment []string) error {
	return writeSections(w, linkMark, comment, append(linkSections("link", l), linkSections("network", network)...))
}

// linkSections makes the tables of a link, or network, and of its measured collectives.
func linkSections(key string, l link.Link) []section {
	if l.Bandwidth == 0 {
		return nil
	}
	sections := []section{{"[machine." + key + "]", linkTable{l.Bandwidth, l.Latency, l.Collective, l.Call, l.Shared, l.Algorithm}}}
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

// printable takes out what may not stand in a comment.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return -1
		}
		return r
	}, line)
}
