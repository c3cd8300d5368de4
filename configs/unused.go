package configs

import (
	"fmt"
	"slices"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/internal/units"
)

// unusedRanges warns of measured collectives that no group of the experiment can be
// priced by: a link's are those within a node, a network's of one rank on each.
func unusedRanges(m costmodel.Machine, ranks int) []string {
	nodes := m.Nodes(ranks)
	if nodes < 2 {
		return nil
	}
	var warnings []string
	warn := func(key string, l link.Link, most int, why string) {
		for _, t := range l.Tables() {
			if len(t.Ranges) == 0 {
				continue
			}
			fewest := slices.MinFunc(t.Ranges, func(a, b link.Range) int { return a.Ranks - b.Ranks })
			if fewest.Ranks > most {
				warnings = append(warnings, fmt.Sprintf("machine.%s.%s of %d ranks prices nothing here: %s", key, t.Key, fewest.Ranks, why))
			}
		}
	}
	warn("link", m.Link, m.DevicesPerNode, fmt.Sprintf("it is for collectives inside a node, which has %s", units.Plural(m.DevicesPerNode, "device")))
	warn("network", m.Network, nodes, fmt.Sprintf("it is for one rank on each of %s", units.Plural(nodes, "node")))
	return warnings
}
