package calibrate

import (
	"fmt"

	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// leastFall bounds by how much a smaller size may take longer where libraries change their
// protocol too late.
const leastFall = 1.25

// fall returns the two sizes of which the smaller takes the most longer.
func (list timings) fall() (less, more CollectiveTiming) {
	worst := 0.0
	for _, a := range list {
		for _, b := range list {
			if r := float64(a.Time) / float64(b.Time); a.Bytes < b.Bytes && r > worst {
				less, more, worst = a, b, r
			}
		}
	}
	return less, more
}

// warnings says what timings of one kind leave open, by numbers of ranks.
func (list timings) warnings(name string) (texts []string) {
	const enough = 16 << 20 // bytes, from which on start-up counts for little
	for _, group := range list.groups() {
		n, nodes := group[0].Ranks, group[0].Nodes
		add := func(format string, args ...any) {
			texts = append(texts, fmt.Sprintf("%ss over %d ranks ", name, n)+fmt.Sprintf(format, args...))
		}
		smallest, largest := group.sizes()
		switch {
		case smallest == largest:
			add("have one size, %v: all of its time counts for bandwidth and none for start-up; measure several, from 8B to 1GiB", units.Bytes(largest))
		case largest < enough:
			add("end at %v: what larger tensors take is not known from them; measure up to 1GiB", units.Bytes(largest))
		}
		if less, more := group.fall(); float64(less.Time) > leastFall*float64(more.Time) {
			add("take %s at %v and only %s at %v: something else may have run; the fit never falls, and lies between", units.FormatDuration(less.Time), units.Bytes(less.Bytes), units.FormatDuration(more.Time), units.Bytes(more.Bytes))
		}
		if doubt := group[0].Doubt; doubt != "" {
			add("were measured with a warning: %s", doubt)
		}
		if group[0].Guessed {
			add("are told by their numbers, and alltoall has the same: the file does not name its test, as nccl-tests do from 2.17 on")
		}
		switch {
		case nodes > 1 && group[0].Kind == graph.AllReduce && n%nodes == 0:
			add("are of %d nodes, and go into [machine.network]: set machine.devices_per_node = %d beside the file, and nics_per_node", nodes, n/nodes)
		case nodes > 1:
			add("are of %d nodes, and psim takes the link for one inside a node: leave machine.devices_per_node out, so that all devices count as one", nodes)
		}
	}
	return texts
}

// mostBandwidth bounds what a link carries: twice the 900 GB/s that are specified of
// NVLink 5 in one direction (the catalog's nvlink5-b200), as collectives may count that a
// switch adds up.
const mostBandwidth = 1.8e12

// tooFast warns of bandwidths of large sizes that no link has.
func tooFast(name string, t link.CollectiveTable) (texts []string) {
	for i, r := range t.Ranges {
		largest := i+1 == len(t.Ranges) || t.Ranges[i+1].Ranks != r.Ranks
		if largest && float64(r.Bandwidth) > mostBandwidth {
			texts = append(texts, fmt.Sprintf("%ss over %d ranks reach %s at the largest sizes, more than any link does: check the file's times, or measure larger sizes", name, r.Ranks, units.FormatRate(float64(r.Bandwidth))))
		}
	}
	return texts
}

// steep reports whether a range has a bandwidth that is far above that of the largest sizes
// of as many ranks. Times hardly grow there, and a slope is what was fitted: no rate.
func (f *LinkFit) steep(r FittedRange) bool {
	const far = 2
	last := r
	for _, other := range f.Ranges {
		if other.Collective == r.Collective && other.Ranks == r.Ranks && other.From > last.From {
			last = other
		}
	}
	return r.Bandwidth > far*last.Bandwidth
}
