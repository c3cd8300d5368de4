package costmodel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// drawTable draws the ranges of one kind of collective, over 2 to 5 ranks.
func drawTable(t *rapid.T) []link.SizeRange {
	var list []link.SizeRange
	for _, ranks := range rapid.SliceOfNDistinct(rapid.IntRange(2, 5), 0, 3, rapid.ID[int]).Draw(t, "numbers of ranks") {
		from := units.Bytes(0)
		for range rapid.IntRange(1, 3).Draw(t, "ranges") {
			list = append(list, link.SizeRange{
				Ranks: ranks, From: from, Call: units.Duration(rapid.Int64Range(0, 1e6).Draw(t, "call")),
				Bandwidth: units.Rate(rapid.Float64Range(1e6, 1e12).Draw(t, "bandwidth")),
			})
			from += units.Bytes(rapid.Int64Range(1, 1e7).Draw(t, "bytes"))
		}
	}
	return list
}

// drawTables draws a link with tables, some of which may be empty.
func drawTables(t *rapid.T) link.Link {
	l := drawLink(t)
	l.AllReduce, l.AllGather, l.ReduceScatter = drawTable(t), drawTable(t), drawTable(t)
	return l
}

// A collective's own table goes before half of the all-reduce's, and that before
// the ring, for every number of ranks by itself.
func TestOwnTable(t *testing.T) {
	l := link.Link{
		Bandwidth: 1e6, Latency: 1000, Call: 4000, // 1 byte per µs
		AllReduce:     []link.SizeRange{{Ranks: 2, Call: 10_000, Bandwidth: 5e6}, {Ranks: 4, Call: 20_000, Bandwidth: 10e6}},
		AllGather:     []link.SizeRange{{Ranks: 4, Call: 6000, Bandwidth: 15e6}},
		ReduceScatter: []link.SizeRange{{Ranks: 3, Call: 8000, Bandwidth: 2e6}},
	}
	for _, c := range []struct {
		kind graph.Kind
		n    int
		want time.Duration
		by   string
	}{
		{graph.AllReduce, 4, 20*us + 2*90*us, "measured"}, // 3/4 of 1200 bytes, twice
		{graph.AllGather, 4, 6*us + 60*us, "measured"},
		{graph.ReduceScatter, 4, (4+8)*us + 90*us, "measured"}, // half of 16 µs beside the call
		{graph.AllGather, 2, (4+3)*us + 120*us, "measured"},
		{graph.ReduceScatter, 3, 8*us + 400*us, "measured"},
		{graph.AllReduce, 3, 4*us + 4*401*us, link.RingAlgorithm},
		{graph.AllGather, 3, 4*us + 2*401*us, link.RingAlgorithm},
	} {
		require.Equal(t, c.want, l.CollectiveTime(c.kind, c.n, 1200), "%s over %d", c.kind, c.n)
		require.Equal(t, c.by, algorithmOf(l, c.kind, c.n, 1200), "%s over %d", c.kind, c.n)
	}
}

// Where a collective has a table of its own, no other table matters.
func TestOwnTableWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawTables(t)
		bytes := rapid.Int64Range(0, 1e8).Draw(t, "S")
		for _, table := range l.Tables() {
			alone := l
			alone.AllReduce, alone.AllGather, alone.ReduceScatter = nil, nil, nil
			switch table.Kind {
			case graph.AllReduce:
				alone.AllReduce = table.Ranges
			case graph.AllGather:
				alone.AllGather = table.Ranges
			default:
				alone.ReduceScatter = table.Ranges
			}
			for _, r := range table.Ranges {
				require.Equal(t, alone.CollectiveTime(table.Kind, r.Ranks, bytes), l.CollectiveTime(table.Kind, r.Ranks, bytes))
			}
		}
	})
}

// By tables, too, time grows with bytes, and a doubled bandwidth never slows.
func TestTablesAreMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawTables(t)
		bytes, n := rapid.Int64Range(0, 1e8).Draw(t, "S"), rapid.IntRange(2, 6).Draw(t, "n")
		faster := l
		faster.Bandwidth, faster.Collective = 2*l.Bandwidth, 2*l.Collective
		for _, list := range []*[]link.SizeRange{&faster.AllReduce, &faster.AllGather, &faster.ReduceScatter} {
			*list = slices.Clone(*list)
			for i := range *list {
				(*list)[i].Bandwidth *= 2
			}
		}
		for kind := range rings {
			now := l.CollectiveTime(kind, n, bytes)
			require.LessOrEqual(t, now, l.CollectiveTime(kind, n, bytes+bytes/2+1))
			require.GreaterOrEqual(t, now, faster.CollectiveTime(kind, n, bytes))
		}
	})
}

// A group with one rank on each node takes the network's tables; with several on
// a node, no table is of such a group.
func TestTablesOfAGroup(t *testing.T) {
	m := nodes()
	table := []link.SizeRange{{Ranks: 2, Call: 5000, Bandwidth: 1e6}, {Ranks: 8, Call: 5000, Bandwidth: 1e6}}
	m.Network.AllReduce, m.Network.AllGather, m.Network.ReduceScatter = table, table, table
	for kind := range rings {
		require.Equal(t, "measured", algorithmOf(m.Group([]int32{0, 4}), kind, 2, 100))
		// Devices of a tensor-parallel rank that share a card have a share of it.
		shared := m
		shared.Tensor, shared.NICsPerNode = 4, 2
		took, alone := shared.Group([]int32{0, 1}).CollectiveTime(kind, 2, 1000)-5000, m.Group([]int32{0, 4}).CollectiveTime(kind, 2, 1000)-5000
		require.Equal(t, 2*alone, took)
		require.Equal(t, link.RingAlgorithm, algorithmOf(m.Group(ranksUpTo(8)), kind, 8, 100))
	}
}
