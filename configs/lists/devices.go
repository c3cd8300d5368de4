// Package lists prints the catalogs: devices and links, kernels, and stacks.
package lists

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"psim/configs"
	"psim/costmodel"
	"psim/costmodel/link"
	"psim/internal/setting"
	"psim/internal/units"
	"psim/internal/wrap"
)

// WriteDevices prints the catalog of devices, links and machines, in columns separated by tabs, or
// if verbose every value with its source.
func WriteDevices(w io.Writer, verbose bool) {
	catalog := configs.Catalog()
	if verbose {
		describeDevices(w, catalog.Devices)
		fmt.Fprintln(w)
		WriteLinks(w, verbose)
		fmt.Fprintln(w)
		WriteMachines(w, verbose)
		return
	}
	fmt.Fprintln(w, "device\tmemory\tbandwidth\tpeak fp32\tpeak fp16\tpeak bf16\tpeak fp8\tpeak fp4\tlink\twhat it is")
	for _, d := range catalog.Devices {
		fmt.Fprintf(w, "%s\t%s\t%s", d.Name, orDash(d.Memory, units.FormatBytes),
			units.FormatRate(float64(d.MemoryBandwidth)))
		for _, r := range d.Rates() {
			if r.Name != "tf32" {
				fmt.Fprintf(w, "\t%s", orDash(r.Peak, units.FormatFLOPS))
			}
		}
		fmt.Fprintf(w, "\t%s\t%s\n", d.Link, d.Description)
	}
	fmt.Fprintln(w)
	WriteLinks(w, verbose)
	fmt.Fprintln(w)
	WriteMachines(w, verbose)
}

// WriteLinks prints the links of the catalog as WriteDevices does.
func WriteLinks(w io.Writer, verbose bool) {
	if verbose {
		describeLinks(w, configs.Catalog().Links)
		return
	}
	fmt.Fprintln(w, "link\tbandwidth\tof a collective\tlatency\tshared by\twhat it is")
	for _, l := range configs.Catalog().Links {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, units.FormatRate(float64(l.Bandwidth)),
			orDash(l.Collective, units.FormatRate), units.FormatDuration(time.Duration(l.Latency)),
			cmp.Or(l.Shared, "device"), l.Description)
	}
}

// WriteMachines prints the machines of the catalog as WriteDevices does.
func WriteMachines(w io.Writer, verbose bool) {
	if verbose {
		fmt.Fprintln(w, "machines: what a job gets of them")
	} else {
		fmt.Fprintln(w, "machine (machine.file)\tdevice\tof a node\tlink\twhat it is")
	}
	for _, m := range configs.KnownMachines() {
		if !verbose {
			fmt.Fprintf(w, "%s\t%v\t%v\t%v\t%s\n", m.Name, m.Machine["device"], m.Machine["devices_per_node"],
				m.Machine["link"], m.Description)
			continue
		}
		fmt.Fprintf(w, "\n%s: %s\n", m.Name, m.Description)
		for _, key := range slices.Sorted(maps.Keys(m.Machine)) {
			describe(w, key, m.Machine[key], m.Source)
		}
	}
}

// describeDevices prints every value of the devices, with its source below it.
func describeDevices(w io.Writer, devices []costmodel.Device) {
	fmt.Fprintln(w, "devices: dense peaks, and the share of them that is reached")
	for _, d := range devices {
		fmt.Fprintf(w, "\n%s: %s\n", d.Name, d.Description)
		describeDevice(w, d)
	}
}

// describeLinks prints every value of the links, with its source below it.
func describeLinks(w io.Writer, links []link.Link) {
	fmt.Fprintln(w, "links: of one direction, and between nodes of one network card")
	for _, l := range links {
		fmt.Fprintf(w, "\n%s: %s\n", l.Name, l.Description)
		for s, value := range setting.Given(l) {
			ranges, measured := value.([]link.SizeRange)
			if !measured {
				describe(w, s.Key, value, l.Source)
				continue
			}
			describe(w, s.Key, "call and bus bandwidth, by ranks and bytes; where that is above the link's, "+
				"bytes hardly count", l.Source)
			for _, r := range ranges {
				fmt.Fprintf(w, "%sover %d from %s: %s and %s\n", below[1:], r.Ranks, r.From, r.Call, r.Bandwidth)
			}
		}
	}
}

// below begins the line below a value.
const below = "\n                        "

// describe prints a value, aligned, with its source.
func describe(w io.Writer, key string, value any, sources map[string]string) {
	fmt.Fprintf(w, "  %-20s  %v%s%s\n", key, value, below, wrap.Text(sources[key], 84, below[1:]))
}

// describeDevice prints the values of a device, with their sources.
func describeDevice(w io.Writer, d costmodel.Device) {
	var peaks []string
	for _, r := range d.Rates() {
		if r.Peak > 0 {
			peaks = append(peaks, fmt.Sprint(r.Name, " ", r.Peak))
		}
	}
	for _, v := range []struct {
		key   string
		value any
	}{
		{"memory", d.Memory}, {"memory_bandwidth", d.MemoryBandwidth}, {"flops", strings.Join(peaks, ", ")},
		{"efficiency", nil}, {"launch", d.Launch}, {"half_rows", d.HalfRows}, {"half_rows_fp32", d.HalfRowsFP32},
		{"multiprocessors", d.Multiprocessors}, {"serial_tiles", d.SerialTiles},
		{"unaligned", d.Unaligned}, {"unaligned_heads", d.UnalignedHeads},
		{"attention", d.Attention}, {"half_head", d.HalfHead}, {"head_multiple", d.HeadMultiple}, {"scan", d.Scan},
		{"link", d.Link},
		{"host_link", d.HostLink}, {"domain", d.Domain}, {"microscaling", d.Microscaling},
	} {
		switch {
		case v.key == "efficiency":
			describeEfficiency(w, d)
		case !reflect.ValueOf(v.value).IsZero() || d.Source[v.key] != "":
			describe(w, v.key, v.value, d.Source)
		}
	}
}

// describeEfficiency prints the shares of the peaks that a device reaches, grouped by source.
func describeEfficiency(w io.Writer, d costmodel.Device) {
	var sources []string
	shares := map[string][]string{}
	for _, r := range append(d.Rates(), costmodel.PeakRate{Name: "memory", Share: d.Efficiency.Memory}) {
		if r.Share == 0 {
			continue
		}
		source := d.Source["efficiency_"+r.Name]
		if shares[source] == nil {
			sources = append(sources, source)
		}
		shares[source] = append(shares[source], fmt.Sprintf("%s %v", r.Name, r.Share))
	}
	for _, source := range sources {
		describe(w, "efficiency", strings.Join(shares[source], ", "), map[string]string{"efficiency": source})
	}
}

// orDash prints a quantity, or a dash for zero.
func orDash[Q ~int64 | ~float64, N int64 | float64](q Q, format func(N) string) string {
	if q == 0 {
		return "-"
	}
	return format(N(q))
}
