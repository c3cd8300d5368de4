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
	for i := range g.Tasks {
		if g.Tasks[i].Kind == graph.AllReduce {
			took[costs.Task(&g.Tasks[i]).Busy]++
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
