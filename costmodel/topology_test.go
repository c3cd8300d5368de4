package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/schedules/graph"
)

// sums is the time of the gradient sums of four stages and two replicas, all alike, on two
// nodes of four devices.
func sums(t *testing.T, change func(*costmodel.Machine)) map[time.Duration]int {
	w := workload(t, mlp(t, 4, 64), []int32{0, 1, 2, 3}, 5)
	w.Replicas = 2
	w = synced(w, 1<<20, false)
	g := graphOf(t, w, orderOf(t, "gpipe", w))
	m := machine()
	m.DevicesPerNode, m.NICsPerNode, m.Network = 4, 4, link.Link{Bandwidth: 1e3}
	change(&m)
	costs, took := costsOf(t, w, m, g), map[time.Duration]int{}
	for i := range int32(g.Len()) {
		if g.Task(i).Kind == graph.AllReduce {
			took[costs.Task(new(g.Task(i))).Busy]++
		}
	}
	return took
}

// Four rings that meet on a card get a quarter of it each; with a card for each of them
// every ring has it for itself, and no use for more.
func TestRingsShareCards(t *testing.T) {
	for cards, want := range map[int]time.Duration{1: 4, 2: 2, 4: 1, 8: 1} {
		const bytes = (64*64 + 64) * 4
		require.Equal(t, map[time.Duration]int{want * bytes * time.Millisecond: 8}, sums(t, func(m *costmodel.Machine) { m.NICsPerNode = cards }), "%d cards", cards)
	}
}

// Ranks of two devices that share a node with another group have half of its cards, in
// trees as well as in rings.
func TestSiblingsShareCards(t *testing.T) {
	m := costmodel.Machine{
		Tensor: 2, DevicesPerNode: 8, NICsPerNode: 4,
		Link: link.Link{Bandwidth: 1e12}, Network: link.Link{Bandwidth: 1e6, Algorithm: link.TreeAlgorithm},
	}
	all := m.Group([]int32{0, 1, 2, 3, 4, 5, 6, 7}) // two rings for each of four ranks on a node, on four cards
	require.Equal(t, time.Second, all.CollectiveTime(graph.AllReduce, 8, 2e6))
}

// With the replicas of a stage beside each other, both are on one node, and their sums
// stay inside it; four stages lie on two nodes.
func TestReplicasFirst(t *testing.T) {
	m := costmodel.Machine{Stages: 4, Replicas: 2, DevicesPerNode: 4, NICsPerNode: 1, Link: link.Link{Name: "link"}, Network: link.Link{Name: "network"}}
	var nodes []int32
	for rank := range int32(8) { // replica by replica
		nodes = append(nodes, m.Node(rank))
	}
	require.Equal(t, []int32{0, 0, 1, 1, 0, 0, 1, 1}, nodes)
	require.Equal(t, "link", m.Group([]int32{1, 5}).Name)
	l := m.Between(1, 2).Link
	require.Equal(t, "network", l.Name)
	within := sums(t, func(m *costmodel.Machine) { m.Stages, m.Replicas = 4, 2 })
	for took := range sums(t, unchanged) {
		for inside := range within {
			require.Less(t, inside, took)
		}
	}
}

// On one node nobody waits for a slower one; on several the more of them there are the
// longer, and the less at a time.
func TestSpread(t *testing.T) {
	w := workload(t, mlp(t, 4, 64), []int32{0}, 5)
	forward := func(replicas int, spread float64) time.Duration {
		w.Replicas = replicas
		m := machine()
		m.DevicesPerNode, m.Network, m.Spread = 1, link.Link{Bandwidth: 1e9}, spread
		costs := costsOf(t, w, m, graphOf(t, w, orderOf(t, "ddp", w)))
		return costs.Task(&graph.Task{Kind: graph.Forward}).Busy
	}
	alone := forward(1, 0.1)
	require.Equal(t, forward(64, 0), alone)
	before, more := alone, time.Duration(1<<62)
	for _, nodes := range []int{4, 16, 64} {
		took := forward(nodes, 0.1)
		require.Greater(t, took, before)
		require.Less(t, took-before, more)
		before, more = took, took-before
	}
	require.InEpsilon(t, 1+0.1*2.337, float64(before)/float64(alone), 1e-3) // the normal quantile of 63.625/64.25
}

// What was measured over nodes goes before closed forms: of the same number or the next
// larger one, or the most; of its cards, a group that has half of them has half.
func TestMeasuredOverNodes(t *testing.T) {
	m := costmodel.Machine{
		DevicesPerNode: 4, NICsPerNode: 4, Link: link.Link{Bandwidth: 1e12, Call: 1000},
		Network: link.Link{Bandwidth: 1e6, Latency: 1e9, Call: 4000, Measured: []link.OverNodes{
			{Nodes: 2, Devices: 4, Call: 10_000, Bandwidth: 4e9}, {Nodes: 4, Devices: 4, Call: 20_000, Bandwidth: 2e9}, {Nodes: 4, Devices: 4, From: 1e9, Call: 40_000, Bandwidth: 3e9},
		}},
	}
	took := func(bytes int64, ranks ...int32) time.Duration {
		return m.Group(ranks).CollectiveTime(graph.AllReduce, len(ranks), bytes)
	}
	require.Equal(t, 10*us+1750*time.Microsecond, took(4e6, ranksUpTo(8)...))
	require.Equal(t, 20*us+3750*time.Microsecond, took(4e6, ranksUpTo(16)...))
	require.Equal(t, 40*us+1250*time.Millisecond, took(2e9, ranksUpTo(16)...))
	require.Equal(t, took(4e6, ranksUpTo(16)...), 20*us+3750*time.Microsecond)
	require.Equal(t, 20*us+(3750*time.Microsecond*31/30), took(4e6, ranksUpTo(32)...)) // 2 · 31/32 of the bytes, where 15/16 were
	require.Equal(t, 10*us+4*time.Millisecond, took(4e6, 0, 4))                        // one card of four
	m.NICsPerNode = 2                                                                  // for four devices: a ring that is alone has one of two
	require.Equal(t, 10*us+2*time.Millisecond, took(4e6, 0, 4))
}
