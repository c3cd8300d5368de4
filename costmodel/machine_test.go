package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/schedules/graph"
)

// cluster is nodes of four devices with two network cards.
func cluster() costmodel.Machine {
	return costmodel.Machine{
		DevicesPerNode: 4, NICsPerNode: 2,
		Link:    link.Link{Name: "link", Bandwidth: 100, Latency: 1, Call: 5},
		Network: link.Link{Name: "network", Bandwidth: 10, Latency: 3, Call: 2},
	}
}

// queue is the queue of a message.
func queue(m costmodel.Machine, from, to int32) int32 {
	return m.Between(from, to).Queue
}

func TestBetween(t *testing.T) {
	m := cluster()
	l := m.Between(0, 3).Link
	require.Equal(t, m.Link, l)
	l = m.Between(3, 4).Link
	require.Equal(t, m.Network, l)
	l = m.Between(4, 0).Link
	require.Equal(t, m.Network, l)

	// Inside a node, what leaves one device queues, wherever it goes.
	require.Equal(t, queue(m, 0, 1), queue(m, 0, 3))
	require.NotEqual(t, queue(m, 0, 1), queue(m, 1, 0))
	// Between nodes, devices 0 and 2 share a card, and 1 and 3 the other.
	require.Equal(t, queue(m, 0, 4), queue(m, 2, 5))
	require.NotEqual(t, queue(m, 0, 4), queue(m, 1, 4))
	require.NotEqual(t, queue(m, 0, 4), queue(m, 4, 0))

	m.Link.Shared = "node" // through the host: all of the node queues
	require.Equal(t, queue(m, 0, 1), queue(m, 3, 2))
	require.NotEqual(t, queue(m, 0, 1), queue(m, 4, 5))
	require.NotEqual(t, queue(m, 0, 1), queue(m, 0, 4))
	m.DevicesPerNode = 0 // one node
	require.Equal(t, queue(m, 0, 1), queue(m, 400, 5))
}

// Queues of devices, hosts and cards are numbered apart, from 1, and as
// densely as there are devices, however many cards a node is said to have.
func TestQueues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := cluster()
		m.DevicesPerNode = rapid.IntRange(1, 5).Draw(t, "devices")
		m.NICsPerNode = rapid.SampledFrom([]int{0, 1, 2, 3, 8, 1 << 40}).Draw(t, "cards")
		shared := rapid.SampledFrom([]string{"", "device", "node"}).Draw(t, "shared")
		m.Link.Shared = shared
		const ranks = 12
		type resource struct {
			kind string
			of   int32
		}
		cards := int32(min(max(1, m.NICsPerNode), m.DevicesPerNode))
		seen := map[int32]resource{}
		for from := range int32(ranks) {
			for to := range int32(ranks) {
				node := from / int32(m.DevicesPerNode)
				want := resource{"device", from}
				switch {
				case to/int32(m.DevicesPerNode) != node:
					want = resource{"card", node*cards + from%int32(m.DevicesPerNode)%cards}
				case shared == "node":
					want = resource{"node", node}
				}
				q := queue(m, from, to)
				require.Positive(t, q)
				require.LessOrEqual(t, q, int32(4*ranks))
				if was, ok := seen[q]; ok {
					require.Equal(t, was, want, "queue %d", q)
				}
				seen[q] = want
			}
		}
		byResource := map[resource]int32{}
		for q, r := range seen {
			require.Zero(t, byResource[r], "%v has two queues", r)
			byResource[r] = q
		}
	})
}

func TestNodes(t *testing.T) {
	m := cluster()
	for ranks, want := range map[int]int{0: 0, 1: 1, 4: 1, 5: 2, 8: 2, 9: 3} {
		require.Equal(t, want, m.Nodes(ranks))
	}
	m.DevicesPerNode = 0
	require.Equal(t, 1, m.Nodes(1000))
	m.DevicesPerNode = 1 << 32 // used to be cut to 32 bits
	require.Equal(t, 1, m.Nodes(1000))
}

// A ring takes as many cards as it has ranks on a node, its steps between nodes the
// network's latency, and those inside the link's.
func TestGroupOverNodes(t *testing.T) {
	m := cluster()
	require.Equal(t, m.Link, m.Group([]int32{0, 1, 2, 3}))
	require.Equal(t, m.Link, m.Group([]int32{5, 6}))
	took := func(ranks ...int32) time.Duration {
		return m.Group(ranks).CollectiveTime(graph.AllGather, len(ranks), int64(60*len(ranks)))
	}
	const second = time.Second
	// One rank of each node: one card of 10 bytes a second, twice 60 bytes.
	require.Equal(t, 2*(6*second+3)+2, took(0, 4, 8))
	// Whole nodes: both cards; two steps between, five inside.
	require.Equal(t, 7*3*second+2*3+5*1+5, took(0, 1, 2, 3, 4, 5, 6, 7))
	// Four on a node and one on another: three steps inside less than all.
	require.Equal(t, 4*3*second+2*3+2*1+5, took(0, 1, 2, 3, 4))
	// Two of each node and one card.
	m.NICsPerNode = 0
	require.Equal(t, 3*6*second+2*3+1+5, took(0, 1, 4, 5))
	// A network that is faster than the link is not the bound.
	m.NICsPerNode, m.Network.Bandwidth = 4, 90
	require.Equal(t, 3*600*time.Millisecond+2*3+1+5, took(0, 1, 4, 5))
	m.Link.Collective = 60
	require.Equal(t, 3*second+2*3+1+5, took(0, 1, 4, 5))
}
