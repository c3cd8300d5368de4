package run

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules/graph"
)

// Without a seed streams start in order. Each seed draws an order of the devices, the same every
// time, and all orders are drawn; the streams of a device stay together and in order.
func TestStartOrder(t *testing.T) {
	g := new(graph.Graph)
	for s := range 6 {
		g.Streams = append(g.Streams, graph.Stream{Rank: int32(s % 3)})
	}
	g.Shape = graph.Shape{Ranks: 3}
	require.Equal(t, []int{0, 1, 2, 3, 4, 5}, startOrder(g, 0))
	seen := map[string]bool{}
	for seed := range uint64(60) {
		order := startOrder(g, seed+1)
		require.Equal(t, order, startOrder(g, seed+1))
		seen[fmt.Sprint(order)] = true
		for i := 0; i < 6; i += 2 {
			require.Equal(t, order[i]+3, order[i+1])
		}
		sorted := slices.Sorted(slices.Values(order))
		require.Equal(t, []int{0, 1, 2, 3, 4, 5}, sorted)
	}
	require.Len(t, seen, 6)
}
