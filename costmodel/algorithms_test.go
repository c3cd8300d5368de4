package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

const us = time.Microsecond

// nodes is a machine of nodes with four devices on 10 B/µs and 1 µs, and two
// network cards each of 5 B/µs and 3 µs.
func nodes() costmodel.Machine {
	return costmodel.Machine{
		DevicesPerNode: 4, NICsPerNode: 2,
		Link:    link.Link{Bandwidth: 10e6, Latency: 1000},
		Network: link.Link{Bandwidth: 5e6, Latency: 3000},
	}
}

// group is the ranks from 0 on.
func ranksUpTo(n int) []int32 {
	ranks := make([]int32, n)
	for i := range ranks {
		ranks[i] = int32(i)
	}
	return ranks
}

// Closed forms with numbers that can be followed by hand.
func TestAlgorithms(t *testing.T) {
	one := link.Link{Bandwidth: 10e6, Latency: 1000, Call: 7000} // 10 bytes per µs
	m := nodes()
	for _, c := range []struct {
		what, algorithm string
		kind            graph.Kind
		link            link.Link
		n               int
		bytes           int64
		want            time.Duration
	}{
		{"14 steps of 1 and 10 µs", link.RingAlgorithm, graph.AllReduce, one, 8, 800, 7*us + 14*11*us},
		{"up and down 3 levels, twice the bytes", link.TreeAlgorithm, graph.AllReduce, one, 8, 800, 7*us + 6*us + 160*us},
		{"5 ranks make 3 levels", link.TreeAlgorithm, graph.AllReduce, one, 5, 800, 7*us + 6*us + 160*us},
		{"two ranks exchange halves", link.TreeAlgorithm, graph.AllReduce, one, 2, 800, 7*us + 2*us + 80*us},
		{"a tree scatters nothing: ring", link.TreeAlgorithm, graph.ReduceScatter, one, 8, 800, 7*us + 7*11*us},
		{"3 halvings and 3 doublings", link.HalvingDoubling, graph.AllReduce, one, 8, 800, 7*us + 6*us + 140*us},
		{"3 halvings", link.HalvingDoubling, graph.ReduceScatter, one, 8, 800, 7*us + 3*us + 70*us},
		{"6 ranks: 4, and all bytes before and after", link.HalvingDoubling, graph.AllReduce, one, 6, 800, 7*us + (4+2)*us + (120+160)*us},
		{"7 ranks pass all bytes on", link.RingAlgorithm, graph.Broadcast, one, 8, 700, 7*us + 7*us + 70*us},
		{"a tree of 3 levels, each of all bytes", link.HalvingDoubling, graph.Broadcast, one, 8, 800, 7*us + 3*81*us},
		{"one node has one level: ring", link.Hierarchical, graph.AllReduce, m.Group(ranksUpTo(4)), 4, 800, 6 * 21 * us},
		// In a node 3 steps of 1 + 20 µs, twice; between two nodes 2 steps of 3 µs
		// and 400 bytes on 10 B/µs.
		{"in nodes, between, in nodes", link.Hierarchical, graph.AllReduce, m.Group(ranksUpTo(8)), 8, 800, 2*3*21*us + 2*43*us},
		{"in nodes, between", link.Hierarchical, graph.AllGather, m.Group(ranksUpTo(8)), 8, 800, 3*21*us + 43*us},
		// Two nodes exchange 800 bytes on 10 B/µs; chains of four send 1600 on 10.
		{"tree of nodes, chains in nodes", link.TreeAlgorithm, graph.AllReduce, m.Group(ranksUpTo(8)), 8, 800, 2*3*us + 6*us + 160*us},
	} {
		c.link.Algorithm = c.algorithm
		require.Equal(t, c.want, c.link.CollectiveTime(c.kind, c.n, c.bytes), "%s: %s", c.algorithm, c.what)
	}
	uneven := m.Group(ranksUpTo(6))
	uneven.Algorithm = link.Hierarchical
	require.Equal(t, link.RingAlgorithm, algorithmOf(uneven, graph.AllReduce, 6, 800), "nodes of 4 and 2")
}

// Auto is the faster of what NCCL has; small tensors go up a tree, large ones
// around a ring.
func TestAuto(t *testing.T) {
	l := link.Link{Bandwidth: 1e11, Latency: 5000, Algorithm: link.Auto}
	require.Equal(t, link.TreeAlgorithm, algorithmOf(l, graph.AllReduce, 8, 1<<10))
	require.Equal(t, link.RingAlgorithm, algorithmOf(l, graph.AllReduce, 8, 1<<30))
	rapid.Check(t, func(t *rapid.T) {
		m, ranks := drawNodes(t)
		auto := m.Group(ranks)
		bytes := rapid.Int64Range(0, 1e10).Draw(t, "S")
		for kind := range rings {
			least := time.Duration(1 << 62)
			for _, name := range []string{link.RingAlgorithm, link.TreeAlgorithm} {
				named := auto
				named.Algorithm = name
				least = min(least, named.CollectiveTime(kind, len(ranks), bytes))
			}
			auto.Algorithm = link.Auto
			require.Equal(t, least, auto.CollectiveTime(kind, len(ranks), bytes))
		}
	})
}

// drawNodes draws a machine of up to 4 nodes and all of its ranks.
func drawNodes(t *rapid.T) (costmodel.Machine, []int32) {
	m := costmodel.Machine{
		DevicesPerNode: rapid.IntRange(1, 8).Draw(t, "devices per node"), NICsPerNode: rapid.IntRange(0, 8).Draw(t, "cards"),
		Link: drawLink(t), Network: drawLink(t),
	}
	m.Link.NVLS = units.Rate(rapid.SampledFrom([]float64{0, 1e9, 3e11}).Draw(t, "nvls"))
	m.Network.SHARP = rapid.Bool().Draw(t, "sharp")
	return m, ranksUpTo(m.DevicesPerNode * rapid.IntRange(1, 4).Draw(t, "nodes"))
}

// By every algorithm time grows with bytes and latency, and falls with
// bandwidth; a doubled rate never slows.
func TestCollectivesAreMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, ranks := drawNodes(t)
		bytes := rapid.Int64Range(0, 1e10).Draw(t, "S")
		algorithm := rapid.SampledFrom(link.Algorithms()).Draw(t, "algorithm")
		took := func(m costmodel.Machine, bytes int64) (times [3]time.Duration) {
			m.Link.Algorithm, m.Network.Algorithm = algorithm, algorithm
			for i, kind := range []graph.Kind{graph.AllReduce, graph.ReduceScatter, graph.AllGather} {
				times[i] = m.Group(ranks).CollectiveTime(kind, len(ranks), bytes)
			}
			return times
		}
		slower, faster, later := m, m, m
		slower.Link.Latency, slower.Network.Latency = m.Link.Latency+1000, m.Network.Latency+1000
		faster.Link.Bandwidth, faster.Network.Bandwidth = 2*m.Link.Bandwidth, 2*m.Network.Bandwidth
		later.Link.Call, later.Network.Call = 500, 500
		for i, now := range took(m, bytes) {
			require.LessOrEqual(t, now, took(m, bytes+bytes/2+1)[i])
			require.LessOrEqual(t, now, took(slower, bytes)[i])
			require.LessOrEqual(t, now, took(later, bytes)[i])
			require.GreaterOrEqual(t, now, took(faster, bytes)[i])
		}
	})
}

// protocols are two protocols over two ranks, of which the second comes late: at
// 1000 bytes the first takes 210 µs and the second 120.
func protocols() link.Link {
	return link.Link{Bandwidth: 1e6, Call: 4000, AllReduce: []link.SizeRange{
		{Ranks: 2, From: 0, Call: 10_000, Bandwidth: 5e6},
		{Ranks: 2, From: 1000, Call: 20_000, Bandwidth: 10e6},
	}}
}

// What was measured goes before algorithms; no size takes longer than a larger
// one; half of an all-reduce has half the steps and the whole call.
func TestMeasuredAllReduce(t *testing.T) {
	l := protocols()
	for bytes, want := range map[int64]time.Duration{0: 10 * us, 100: 30 * us, 550: 120 * us, 999: 120 * us, 1000: 120 * us, 2000: 220 * us} {
		require.Equal(t, want, l.CollectiveTime(graph.AllReduce, 2, bytes), "%d bytes", bytes)
	}
	require.Equal(t, "measured", algorithmOf(l, graph.AllReduce, 2, 1))
	require.Equal(t, link.RingAlgorithm, algorithmOf(l, graph.AllReduce, 3, 1))
	require.Equal(t, 7*us+10*us, l.CollectiveTime(graph.AllGather, 2, 100))
	require.Equal(t, 12*us+100*us, l.CollectiveTime(graph.ReduceScatter, 2, 2000))
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Range(0, 3000).Draw(t, "a"), rapid.Int64Range(0, 3000).Draw(t, "b")
		for kind := range rings {
			require.LessOrEqual(t, l.CollectiveTime(kind, 2, min(a, b)), l.CollectiveTime(kind, 2, max(a, b)))
		}
	})
}
