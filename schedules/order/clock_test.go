package order_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

func TestClocks(t *testing.T) {
	clocks, err := ordertest.Parse(t, `
		0F0 0F1 0B0 0B1
		1F0 1B0 1F1 1B1`).Clocks()
	require.NoError(t, err)
	require.Equal(t, [][]int32{{0, 1, 3, 5}, {1, 2, 3, 4}}, clocks)
	clocks, err = ordertest.Parse(t, `
		0F0 0I0 0W0
		1F0 1I0 1W0`).Clocks()
	require.NoError(t, err)
	require.Equal(t, [][]int32{{0, 3, 4}, {1, 2, 3}}, clocks, "W holds nobody up")
}

// A circle between ranks has no cycles.
func TestClocksOfACircle(t *testing.T) {
	o := ordertest.Parse(t, `
		0F0 0B0 0F1 0B1
		1F1 1F0 1B0 1B1`)
	_, err := o.Clocks()
	require.EqualError(t, err, "rank 0, step 1: 0B0 waits forever: it needs 1B0, which comes after an action that waits for this rank\n  step      0   1   2   3\n  rank 0: 0F0 0B0 0F1 0B1\n              ^^^\n  rank 1: 1F1 1F0 1B0 1B1")
	p := wiring.Pipeline{Shape: graph.Shape{Ranks: 2, Microbatches: 2}, Order: o, Synchronous: true}
	_, err = p.Graph()
	require.ErrorContains(t, err, "0B0 waits forever")
}
