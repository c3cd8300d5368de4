package calibrate

import (
	"cmp"
	"maps"
	"slices"

	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// Split divides timings into those inside a node, or without hosts, and those over several
// nodes.
func Split(timings []CollectiveTiming) (inside, across []CollectiveTiming) {
	for _, t := range timings {
		if t.Nodes > 1 {
			across = append(across, t)
		} else {
			inside = append(inside, t)
		}
	}
	return inside, across
}

// FitNetwork fits a network to timings over several nodes: a table of all-reduces by the
// number of nodes, from runs with the most devices, and a rate of messages, assuming a
// network card for each device. Without all-reduces the network has no bandwidth.
func FitNetwork(across []CollectiveTiming) (link.Link, error) {
	byNodes := map[int][]CollectiveTiming{}
	for _, t := range across {
		if t.Kind != graph.AllReduce || t.Ranks%t.Nodes != 0 {
			continue
		}
		if list := byNodes[t.Nodes]; list != nil && list[0].Ranks != t.Ranks {
			if list[0].Ranks > t.Ranks {
				continue
			}
			byNodes[t.Nodes] = nil
		}
		byNodes[t.Nodes] = append(byNodes[t.Nodes], t)
	}
	var network link.Link
	var used []CollectiveTiming
	for _, nodes := range slices.Sorted(maps.Keys(byNodes)) {
		list := byNodes[nodes]
		slices.SortStableFunc(list, func(a, b CollectiveTiming) int { return cmp.Compare(a.Bytes, b.Bytes) })
		for _, r := range fitRanges(list) {
			devices := r.Ranks / nodes
			network.Measured = append(network.Measured, link.OverNodes{
				Nodes: nodes, Devices: devices, From: r.From, Call: r.Call, Bandwidth: r.Bandwidth,
			})
			network.Bandwidth = units.Rate(Significant(float64(r.Bandwidth) / float64(devices)))
		}
		used = append(used, list...)
	}
	if len(used) == 0 {
		return network, nil
	}
	fitted, err := FitTimings(used)
	network.Latency, network.Call, network.Algorithm = fitted.Latency, fitted.Call, link.Auto
	return network, err
}
