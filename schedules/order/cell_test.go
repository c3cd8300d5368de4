package order_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

func TestPairErrors(t *testing.T) {
	o := ordertest.Parse(t, "0F0 0F1 0B0 0B1")
	o[0][1].Pair = true
	require.NoError(t, o.Validate(graph.Placement{First: []int32{0}}, 2))
	o = ordertest.Parse(t, "0F0 0B0 0F1 0B1")
	o[0][1].Pair = true
	require.ErrorContains(t, o.Validate(graph.Placement{First: []int32{0}}, 2), "rank 0, step 1: 0B0 begins no pair: an overlapped pair is an F and the B after it\n")
}
