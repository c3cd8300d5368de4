package costmodel

import (
	"fmt"
	"slices"
	"time"

	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// Times that reach the longest one that can be added are refused, since sums of them would be cut
// off.

// tooLong returns the error for a time that would be cut off.
func tooLong(key, what, check string) error {
	return fmt.Errorf("%s: %s would take more than %.0f hours; check %s", key, what, units.Longest.Hours(), check)
}

// checkTimes refuses messages, collectives and updates whose times would be cut off.
func (m *Machine) checkTimes(g *graph.Graph, collective func(*graph.Task) time.Duration, u updates) error {
	if slices.Max(u.times) >= units.Longest {
		return tooLong("compute", "the optimizer's step", "what it takes, and with clip the link")
	}
	if err := m.checkMessages(g); err != nil {
		return err
	}
	if err := m.checkCopies(g); err != nil {
		return err
	}
	return m.checkCollectives(g, collective)
}

// checkCopies refuses copies to and from hosts whose times would be cut off.
func (m *Machine) checkCopies(g *graph.Graph) error {
	for i := range g.Classes {
		t := &g.Classes[i]
		if !t.Kind.Staging() {
			continue
		}
		if cost := m.hostCopy(t); units.Sum(cost.Busy, cost.Delay) >= units.Longest {
			return tooLong("host_link", "a copy of "+units.FormatBytes(t.Bytes), "bandwidth and latency")
		}
	}
	return nil
}

// checkMessages refuses messages whose times would be cut off. All messages of a stream go from one
// rank to one other, so it is enough to check the largest of each stream.
func (m *Machine) checkMessages(g *graph.Graph) error {
	largest := make([]*graph.Task, len(g.Streams))
	for i := range g.Classes {
		t := &g.Classes[i]
		if t.Kind.Message() && (largest[t.Stream] == nil || t.Bytes > largest[t.Stream].Bytes) {
			largest[t.Stream] = t
		}
	}
	for _, t := range largest {
		if t == nil {
			continue
		}
		cost := m.message(t)
		if units.Sum(cost.Busy, cost.Delay) >= units.Longest {
			what := fmt.Sprintf("a message of %s from rank %d to rank %d", units.FormatBytes(t.Bytes), t.Rank, t.Peer)
			return tooLong(m.linkKey(t.Rank, t.Peer), what, "bandwidth and latency")
		}
	}
	return nil
}

// checkCollectives refuses collectives whose times would be cut off. It checks the largest of each
// kind and group.
func (m *Machine) checkCollectives(g *graph.Graph, collective func(*graph.Task) time.Duration) error {
	priced := make([][graph.Kinds]int64, len(g.Groups)) // 1 + bytes of the largest so far; 0 means no collective
	for i := range g.Classes {
		t := &g.Classes[i]
		if !t.Kind.Collective() || t.Bytes < priced[t.Peer][t.Kind] {
			continue
		}
		priced[t.Peer][t.Kind] = t.Bytes + 1
		n := g.Members(t.Peer)
		if collective(t) >= units.Longest {
			what := fmt.Sprintf("the %s of %s over %d ranks", t.Kind, units.FormatBytes(t.Bytes), n)
			if t.Kind == graph.AllToAll {
				return tooLong("network", what, "the bandwidths of link and network")
			}
			key, check := m.cause(t.Kind, g.Groups[t.Peer], g.Width(t.Peer), t.Bytes)
			return tooLong(key, what, check)
		}
	}
	return nil
}

// cause returns the link, and its key, that makes a collective take too long: without that setting
// its time would not be cut off. If no single setting is the cause, it returns the slowest link
// with all keys.
func (m *Machine) cause(k graph.Kind, ranks []int32, width int, bytes int64) (key, check string) {
	const unlimited = 1e30
	slowest := m.linkKey(ranks[0], ranks[len(ranks)-1])
	for _, c := range []struct {
		name string
		drop func(l *link.Link)
	}{
		{"collective_call", func(l *link.Link) { l.Call = 0 }},
		{"latency", func(l *link.Link) { l.Latency = 0 }},
		{"collective_bandwidth", func(l *link.Link) { l.Collective = 0 }},
		{"bandwidth", func(l *link.Link) { l.Bandwidth, l.Collective = unlimited, unlimited }},
		{"all_reduce, all_gather and reduce_scatter", func(l *link.Link) { *l = l.WithoutTables() }},
	} {
		for _, key := range []string{"link", "network"} {
			without := *m
			c.drop(map[string]*link.Link{"link": &without.Link, "network": &without.Network}[key])
			if without.group(ranks, width, nil).CollectiveTime(k, len(ranks)*width, bytes) < units.Longest {
				return key, c.name
			}
		}
	}
	return slowest, "bandwidth, latency and collective_call"
}

// linkKey names the link between two ranks as a configuration does.
func (m *Machine) linkKey(from, to int32) string {
	if m.Node(from) != m.Node(to) {
		return "network"
	}
	return "link"
}
