package calibrate

import (
	"fmt"

	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// toleratedFall is the factor by which a smaller size may take longer than a larger one
// without a warning: libraries switch their protocol late.
const toleratedFall = 1.25

// steepestFall returns the pair of sizes for which the smaller size takes the most times
// as long as the larger one.
func (list timings) steepestFall() (less, more CollectiveTiming) {
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

// warnings says what timings of one kind leave open, for each number of ranks.
func (list timings) warnings(name string) (texts []string) {
	const enough = 16 << 20 // bytes from which on start-up counts for little
	for _, group := range list.groups() {
		n, nodes := group[0].Ranks, group[0].Nodes
		add := func(format string, args ...any) {
			texts = append(texts, fmt.Sprintf("%ss over %d ranks ", name, n)+fmt.Sprintf(format, args...))
		}
		smallest, largest := group.sizes()
		switch {
		case smallest == largest:
			add("have one size, %v: all of its time counts as bandwidth, nothing as start-up; "+
				"measure several, from 8B to 1GiB", units.Bytes(largest))
		case largest < enough:
			add("end at %v: the times of larger tensors are unknown; measure up to 1GiB",
				units.Bytes(largest))
		}
		if less, more := group.steepestFall(); float64(less.Time) > toleratedFall*float64(more.Time) {
			add("take %s at %v and only %s at %v: something else may have run; the fit never falls, and lies between",
				units.FormatDuration(less.Time), units.Bytes(less.Bytes),
				units.FormatDuration(more.Time), units.Bytes(more.Bytes))
		}
		if warning := group[0].Warning; warning != "" {
			add("were measured with a warning: %s", warning)
		}
		if group[0].Guessed {
			add("were recognised by their numbers, which are those of alltoall too: the file does not name its test, " +
				"as nccl-tests do from 2.17 on")
		}
		switch {
		case nodes > 1 && group[0].Kind == graph.AllReduce && n%nodes == 0:
			add("are of %d nodes, and go into [machine.network]: set machine.devices_per_node = %d and nics_per_node "+
				"in addition to the file", nodes, n/nodes)
		case nodes > 1:
			add("are of %d nodes, but psim takes the link for one inside a node: leave machine.devices_per_node out, "+
				"so that all devices count as one", nodes)
		}
	}
	return texts
}

// mostBandwidth is more than any link carries: twice the specified 900 GB/s of NVLink 5 in
// one direction (the catalog's nvlink5-b200), since collectives may count the sums of a
// switch.
const mostBandwidth = 1.8e12

// bandwidthWarnings warns of bandwidths at the largest sizes that no link has.
func bandwidthWarnings(name string, t link.CollectiveTable) (texts []string) {
	for i, r := range t.Ranges {
		largest := i+1 == len(t.Ranges) || t.Ranges[i+1].Ranks != r.Ranks
		if largest && float64(r.Bandwidth) > mostBandwidth {
			text := fmt.Sprintf("%ss over %d ranks reach %s at the largest sizes, more than any link does: "+
				"check the file's times, or measure larger sizes",
				name, r.Ranks, units.FormatRate(float64(r.Bandwidth)))
			texts = append(texts, text)
		}
	}
	return texts
}

// isSlope reports whether the bandwidth of a range is far above that of the largest sizes
// with the same number of ranks. Times hardly grow in such a range, so the fitted value is
// only a slope, not a rate of the link.
func (f *LinkFit) isSlope(r FittedRange) bool {
	const far = 2
	last := r
	for _, other := range f.Ranges {
		if other.Collective == r.Collective && other.Ranks == r.Ranks && other.From > last.From {
			last = other
		}
	}
	return r.Bandwidth > far*last.Bandwidth
}
