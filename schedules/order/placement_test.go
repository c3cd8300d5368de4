package order_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/order"
)

func TestStages(t *testing.T) {
	for _, c := range []struct{ order, want string }{
		{"0F0 2F0\n1F0", "[0 1 0]"},
		{"1F0\n0F0", "[1 0]"},
		{"0F0\n0B0", "rank 1, step 0: stage 0 is on rank 0 and on rank 1; a stage is on one rank, or all are on two, one for each half of the microbatches" + `
  step      0
  rank 0: 0F0
  rank 1: 0B0
          ^^^`},
		{"0F0\n2F0", "stage 1 is missing: the stages must be numbered 0 to 2"},
		{"1F0", "stage 0 is missing: the stages must be numbered 0 to 1"},
		{"2147483647F0", "stage 0 is missing: the stages must be numbered 0 to 2147483647"},
	} {
		stages, err := ordertest.Parse(t, c.order).Placement()
		got := fmt.Sprint(stages.First)
		if err != nil {
			got = err.Error()
		}
		require.Equal(t, c.want, got)
	}
	_, err := order.Order{{{Kind: graph.Forward, Stage: -1}}}.Placement()
	require.EqualError(t, err, "rank 0 has stage -1: the stages must be numbered from 0")
	require.True(t, ordertest.Parse(t, "0F0 0I0 0W0").Split())
	require.Zero(t, order.Order{}.Microbatches())
}
