package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/internal/units"
	"psim/results"
)

// memoryVerdict says whether memory suffices, and the highest peak. It is empty where no
// memory was modelled.
func memoryVerdict(r results.Result) string {
	highest := highestRank(r)
	peak := highestPeak(r, highest)
	switch known := highest.MemoryCapacity > 0 || len(r.Nodes) > 0; {
	case highest.PeakMemory == 0:
		return ""
	case !r.FitsMemory:
		return results.DoesNotFit + "; " + peak
	case r.MemoryVerdict == results.Close:
		return results.Close + "; " + peak
	case known:
		return "fits; " + peak
	}
	return peak + " (no limit known)"
}

// highestPeak prints the highest peak of a rank, and of a node.
func highestPeak(r results.Result, highest results.RankResult) string {
	text := "the highest peak is " + units.FormatBytes(highest.PeakMemory)
	margin := units.FormatPercent(r.MemoryMargin)
	whole := func(capacity int64) string {
		return units.FormatBytes(int64(float64(capacity) / (1 - r.MemoryMargin)))
	}
	switch {
	case highest.MemoryCapacity == 0:
	case r.MemoryMargin == 0 || !r.FitsMemory:
		text += " of " + whole(highest.MemoryCapacity)
	case r.MemoryVerdict == results.Close:
		text += fmt.Sprintf(" of %s, which is within the margin of %s", whole(highest.MemoryCapacity), margin)
	default:
		text += fmt.Sprintf(" of %s (a margin of %s stays free)", units.FormatBytes(highest.MemoryCapacity), margin)
	}
	text += fmt.Sprintf(", on rank %d", highest.Rank)
	if len(r.Nodes) == 0 {
		return text
	}
	n := slices.MaxFunc(r.Nodes, func(a, b results.NodeResult) int { return cmp.Compare(a.PeakMemory, b.PeakMemory) })
	return text + fmt.Sprintf("; node %d needs %s for %s and has %s", n.Node, units.FormatBytes(n.PeakMemory),
		units.Plural(n.Devices, "device"), whole(n.MemoryCapacity))
}

// memoryAtPeak lists the parts of the highest peak, if it has several.
func memoryAtPeak(r results.Result) string {
	parts := memoryParts(highestRank(r).Memory)
	if len(parts) < 2 {
		return ""
	}
	return strings.Join(parts, ", ")
}

// memoryParts lists the parts of a peak, the largest first, without those of size 0.
func memoryParts(m *results.MemoryBytes) []string {
	if m == nil {
		return nil
	}
	type part struct {
		name  string
		bytes int64
	}
	parts := slices.DeleteFunc([]part{
		{"parameters", m.Parameters}, {"gradients", m.Gradients}, {"optimizer", m.Optimizer},
		{"activations", m.Activations}, {"buffers", m.Buffers}, {"context", m.Context},
	}, func(p part) bool { return p.bytes == 0 })
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.bytes, a.bytes) })
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.name+" "+units.FormatBytes(p.bytes))
	}
	return texts
}

// highestRank returns the first rank with the highest peak.
func highestRank(r results.Result) (highest results.RankResult) {
	for _, rank := range r.Ranks {
		if rank.PeakMemory > highest.PeakMemory {
			highest = rank
		}
	}
	return highest
}
