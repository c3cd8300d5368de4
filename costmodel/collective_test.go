package costmodel_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

var rings = map[graph.Kind]string{
	graph.AllReduce:     collective.RingAllReduce,
	graph.ReduceScatter: collective.RingReduceScatter,
	graph.AllGather:     collective.RingAllGather,
}

func drawLink(t *rapid.T) link.Link {
	return link.Link{
		Bandwidth: units.Rate(rapid.Float64Range(1e6, 1e12).Draw(t, "bandwidth")),
		Latency:   units.Duration(rapid.IntRange(0, 100_000).Draw(t, "latency")),
	}
}

// The closed form is what spelling the ring out and simulating it gives, to
// the nanosecond.
func TestCollectiveTimeIsTheRings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLink(t)
		n := rapid.IntRange(1, 16).Draw(t, "N")
		bytes := int64(n) * rapid.Int64Range(0, 1e9).Draw(t, "S/N")
		for kind, name := range rings {
			g, err := collective.Call{Collective: name, Ranks: n, Length: bytes}.Graph()
			require.NoError(t, err)
			costs, err := costmodel.RingCosts(costmodel.Machine{Link: l}, g)
			require.NoError(t, err)
			require.Equal(t, run(t, g, costs).End(), l.CollectiveTime(kind, n, bytes), "%s", name)
		}
	})
}

// An all-reduce is a reduce-scatter and an all-gather; a call costs its own
// beside either; a ring has its own bandwidth.
func TestCollectiveTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLink(t)
		n := rapid.IntRange(2, 100).Draw(t, "N")
		bytes := rapid.Int64Range(0, 1e12).Draw(t, "S")
		all := l.CollectiveTime(graph.AllReduce, n, bytes)
		half := l.CollectiveTime(graph.ReduceScatter, n, bytes)
		require.Equal(t, half, l.CollectiveTime(graph.AllGather, n, bytes))
		require.Equal(t, 2*half, all)
		called := l
		called.Call = 77
		require.Equal(t, all+77, called.CollectiveTime(graph.AllReduce, n, bytes))
		ring := l
		ring.Bandwidth, ring.Collective = 1, l.Bandwidth
		require.Equal(t, all, ring.CollectiveTime(graph.AllReduce, n, bytes))
	})
	for kind := range rings {
		require.Zero(t, link.Link{Bandwidth: 1, Latency: 1, Call: 1}.CollectiveTime(kind, 1, 1e9))
	}
}

// 12.5 GB take a second at 100 Gb/s.
func TestTransfer(t *testing.T) {
	l := link.Link{Latency: 5000, Collective: 1}
	require.NoError(t, l.Bandwidth.UnmarshalText([]byte("100Gb/s")))
	require.Equal(t, time.Second, l.Transfer(12_500_000_000))
	require.Equal(t, 80*time.Nanosecond, l.Transfer(1000))
	require.Zero(t, l.Transfer(0))
	require.Equal(t, time.Nanosecond, link.Link{Bandwidth: 1e9}.Transfer(1))
	require.Zero(t, link.Link{Bandwidth: 1e10}.Transfer(4)) // 0.4 ns
}

// What takes too long to be counted is long, not negative.
func TestNoOverflow(t *testing.T) {
	slow := link.Link{Bandwidth: 5e-324, Latency: math.MaxInt64, Call: math.MaxInt64}
	require.Positive(t, slow.Transfer(math.MaxInt64))
	require.Positive(t, slow.Transfer(0)+slow.Transfer(1))
	require.GreaterOrEqual(t, link.Link{}.Transfer(0), time.Duration(0))
	for kind := range rings {
		for _, n := range []int{2, 3, 1 << 14, math.MaxInt32} {
			got := slow.CollectiveTime(kind, n, math.MaxInt64)
			require.Greater(t, got, 365*24*time.Hour)
			require.Positive(t, 50*got)
			slow.Latency, slow.Call = 0, 0
			require.Positive(t, slow.CollectiveTime(kind, n, 1))
		}
	}
}

// A ring needs links; across nodes, a network.
func TestRingCostsErrors(t *testing.T) {
	g, err := collective.Call{Collective: collective.RingAllReduce, Ranks: 4, Length: 8}.Graph()
	require.NoError(t, err)
	m := machine()
	m.DevicesPerNode = 2
	_, err = costmodel.RingCosts(m, g)
	require.ErrorContains(t, err, "network: 4 ranks take 2 nodes")
	_, err = costmodel.RingCosts(costmodel.Machine{}, g)
	require.ErrorContains(t, err, "link: 4 ranks need one")
	m.Network = link.Link{Bandwidth: 1e9}
	costs, err := costmodel.RingCosts(m, g)
	require.NoError(t, err)
	// Sends of 2 bytes inside a node take 0.2 ns and 2 µs of latency, between
	// nodes 2 ns: the slowest chain of 6 steps alternates.
	require.Equal(t, 3*(2000*time.Nanosecond+2), run(t, g, costs).End())
}
