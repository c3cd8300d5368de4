package costmodel_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/stages"
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
			as := costmodel.Fused{Kind: kind, Algorithm: link.RingAlgorithm}
			costs, err := costmodel.SpelledCosts(costmodel.Machine{Link: l}, g, as)
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
func TestSpelledCostsErrors(t *testing.T) {
	g, err := collective.Call{Collective: collective.RingAllReduce, Ranks: 4, Length: 8}.Graph()
	require.NoError(t, err)
	m := machine()
	m.DevicesPerNode = 2
	_, err = costmodel.SpelledCosts(m, g, ringSum)
	require.ErrorContains(t, err, "network: 4 ranks take 2 nodes")
	_, err = costmodel.SpelledCosts(costmodel.Machine{}, g, ringSum)
	require.ErrorContains(t, err, "link: 4 ranks need one")
	m.Network = link.Link{Bandwidth: 1e9}
	costs, err := costmodel.SpelledCosts(m, g, ringSum)
	require.NoError(t, err)
	// Each of 6 sends of 2 bytes takes 2 ns on the network, which bounds the ring. In each half 2 of
	// 3 steps cross the network, which has no latency, and one takes the 2 µs of a node's link.
	require.Equal(t, 2*2000*time.Nanosecond+6*2-4, run(t, g, costs).End(), "each delay rounds down")
}

var ringSum = costmodel.Fused{Kind: graph.AllReduce, Algorithm: link.RingAlgorithm}

// A collective takes the same time by itself, message by message, and fused, on any machine: by
// the group's rate, over nodes and their cards, and by measured lists. Each message of a chain
// rounds its two times down to a nanosecond.
func TestSpelledOutAsFused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawCollectiveMachine(t)
		row := rapid.SampledFrom(collective.Collectives()).Draw(t, "collective")
		n := rapid.IntRange(2, 16).Draw(t, "N")
		if row.Algorithm == "" || row.Legal(n) != nil {
			t.Skip("no library has it")
		}
		bytes := int64(n) * rapid.Int64Range(0, 1e9).Draw(t, "S/N")
		g, err := collective.Call{Collective: row.Name, Ranks: n, Length: bytes}.Graph()
		require.NoError(t, err)
		costs, err := costmodel.SpelledCosts(m, g, costmodel.Fused{Kind: row.Result, Algorithm: row.Algorithm})
		require.NoError(t, err)
		m.Link.Algorithm, m.Network.Algorithm = row.Algorithm, row.Algorithm
		want := fusedTime(t, m, row.Result, n, bytes)
		got := run(t, g, costs).End()
		steps := g.Len() / 2 / n
		require.LessOrEqual(t, got, want)
		require.Greater(t, got, want-time.Duration(2*steps))
	})
}

// drawCollectiveMachine draws a machine of one node or several, with links that may have
// bandwidths of their own for collectives, a host bridge, or measured lists.
func drawCollectiveMachine(t *rapid.T) costmodel.Machine {
	links := [2]link.Link{drawLink(t), drawLink(t)}
	for i := range links {
		l := &links[i]
		l.Call = units.Duration(rapid.IntRange(0, 100_000).Draw(t, "call"))
		l.Collective = units.Rate(rapid.SampledFrom([]float64{0, 1e9, 3e11}).Draw(t, "collective bandwidth"))
		l.Shared = rapid.SampledFrom([]string{"", "node"}).Draw(t, "shared")
		if rapid.Bool().Draw(t, "measured") {
			l.AllReduce = []link.SizeRange{
				{Ranks: 8, Call: 40_000, Bandwidth: 2e10}, {Ranks: 8, From: 1 << 20, Call: 90_000, Bandwidth: 4e11},
			}
		}
	}
	return costmodel.Machine{
		Device: device(), Link: links[0], Network: links[1],
		DevicesPerNode: rapid.SampledFrom([]int{0, 1, 4, 8}).Draw(t, "devices per node"),
		NICsPerNode:    rapid.IntRange(0, 8).Draw(t, "cards"),
	}
}

// fusedTime prices a collective over all ranks as a task of data parallelism.
func fusedTime(t tester, m costmodel.Machine, kind graph.Kind, n int, bytes int64) time.Duration {
	staged := stages.Workload{Network: mlp(t, 2, 8), Layers: []int{2}, Placement: graph.InOrder(1), Samples: []int64{1}, Replicas: n}.Staged()
	g := &graph.Graph{Shape: graph.Shape{Ranks: 1, Microbatches: 1, Replicas: n}, Placement: graph.InOrder(1)}
	group := g.AddGroup(ranksUpTo(n))
	costs, err := costmodel.StepCosts(m, staged, g)
	require.NoError(t, err)
	return costs.Task(&graph.Task{Kind: kind, Peer: group, Bytes: bytes, Stage: graph.None, Microbatch: graph.None}).Busy
}

// Every rank broadcasts its part: as many broadcasts as ranks, one after another, which take as long as
// a gather's bytes and all of their steps.
func TestOwnersTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLink(t)
		n := rapid.IntRange(2, 100).Draw(t, "N")
		bytes := int64(n) * rapid.Int64Range(0, 1e9).Draw(t, "S/N")
		one := l.CollectiveTime(graph.Broadcast, n, bytes/int64(n))
		require.Equal(t, time.Duration(n)*one, l.OwnersTime(n, bytes))
		require.Greater(t, l.OwnersTime(n, bytes)+time.Duration(n*n), l.CollectiveTime(graph.AllGather, n, bytes))
	})
}

// With ZeRO 1 a step gathers what it has updated by bucket, at once, or from its owners: the more calls,
// the more steps of latency.
func TestUpdatedParameters(t *testing.T) {
	m := machine()
	w := synced(workload(t, gpt2(t), []int32{0}, 1), 25_000_000, false)
	w.Replicas, w.Zero = 4, 1
	gathers := func(w stages.Workload) (n int, took time.Duration) {
		g := graphOf(t, w, orderOf(t, "ddp", w))
		costs, err := costmodel.StepCosts(m, w.Staged(), g)
		require.NoError(t, err)
		for _, task := range g.Tasks() {
			if task.Kind == graph.AllGather && task.Rank == 0 {
				n, took = n+1, took+costs.Task(&task).Busy
			}
		}
		return n, took
	}
	buckets := len(w.Staged().Sync().Buckets[0])
	const bytes = 4 * gpt2Parameters
	var all time.Duration
	for _, piece := range w.Staged().Sync().Parameters[0] {
		all += m.Link.CollectiveTime(graph.AllGather, 4, piece)
	}
	n, took := gathers(w)
	require.Equal(t, buckets, n)
	require.Equal(t, all, took)
	w.UpdatedAtOnce = true
	n, took = gathers(w)
	require.Equal(t, 1, n)
	require.Equal(t, m.Link.CollectiveTime(graph.AllGather, 4, bytes), took)
	w.UpdatedAtOnce, w.UpdatedByOwner = false, true
	n, took = gathers(w)
	require.Equal(t, 1, n, "one task for all broadcasts")
	require.Equal(t, m.Link.OwnersTime(4, bytes), took)
}

// With groups of replicas that hold a whole optimizer each, parameters are gathered within a group, and a
// device holds that group's share. Gradients are summed over all replicas.
func TestZeroGroups(t *testing.T) {
	m := machine()
	w := synced(workload(t, gpt2(t), []int32{0}, 1), 25_000_000, false)
	w.Replicas, w.Zero, w.ZeroGroup, w.NoReduceScatter, w.UpdatedAtOnce = 4, 1, 2, true, true
	staged := w.Staged()
	g := graphOf(t, w, orderOf(t, "ddp", w))
	costs, err := costmodel.StepCosts(m, staged, g)
	require.NoError(t, err)
	for _, task := range g.Tasks() {
		switch ranks := g.Groups[max(0, task.Peer)]; task.Kind {
		case graph.AllGather:
			first := task.Rank / 2 * 2
			require.Equal(t, []int32{first, first + 1}, ranks)
			require.Equal(t, m.Link.CollectiveTime(graph.AllGather, 2, task.Bytes), costs.Task(&task).Busy)
		case graph.AllReduce:
			require.Len(t, ranks, 4)
		case graph.Average:
			require.Equal(t, staged.PerParameter.Gradient*gpt2Parameters/2, task.Bytes)
		}
	}
	require.Equal(t, int64(10), staged.Share(20, 1))
	whole := w
	whole.ZeroGroup = 0
	require.Equal(t, int64(5), whole.Staged().Share(20, 1))
}

// Hybrid sharding over two nodes of two devices: parameters are gathered and gradients scattered inside a node, and
// shares are summed over the network, whose card the two sums of a node share. A device holds its node's share.
func TestHybridSharding(t *testing.T) {
	m := machine()
	m.DevicesPerNode, m.NICsPerNode = 2, 1
	m.Network = link.Link{Bandwidth: 1e9, Latency: units.Duration(5 * time.Microsecond)}
	w := synced(sharded(untied(t), 4, 1), 0, true)
	w.ZeroGroup = 2
	staged := w.Staged()
	g := graphOf(t, w, orderOf(t, "ddp", w))
	costs, err := costmodel.StepCosts(m, staged, g)
	require.NoError(t, err)
	half := m
	half.Network = m.Network.Share(0.5)
	var scattered, summed int64
	for _, task := range g.Tasks() {
		if !task.Kind.Collective() || task.Rank != 0 {
			continue
		}
		group, took := g.Groups[task.Peer], costs.Task(&task).Busy
		switch task.Kind {
		case graph.AllReduce:
			require.Equal(t, []int32{0, 2}, group)
			require.Equal(t, half.Group(group).CollectiveTime(graph.AllReduce, 2, task.Bytes), took)
			summed += task.Bytes
		case graph.ReduceScatter:
			scattered += task.Bytes
			fallthrough
		default:
			require.Equal(t, []int32{0, 1}, group)
			require.Equal(t, m.Link.CollectiveTime(task.Kind, 2, task.Bytes), took)
		}
	}
	require.Equal(t, 2*summed, scattered)
	require.Equal(t, int64(10), staged.Share(20, 3))
}
