package order_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// One stage per rank and two microbatches; every message is exact.
func TestOrderErrors(t *testing.T) {
	for _, c := range []struct{ name, order, want string }{
		{"twice", `
			0F0 0F1 0B0 0F1 0B1
			1F0 1B0 1F1 1B1`, `
rank 0, step 3: 0F1 appears twice
  step      0   1   2   3   4
  rank 0: 0F0 0F1 0B0 0F1 0B1
                      ^^^
  rank 1: 1F0 1B0 1F1 1B1`},
		{"missing forward and backward", `
			0F0 0B0
			1F0 1B0 1F1 1B1`, `
rank 0: 0F1 is missing
  step      0   1   2   3
  rank 0: 0F0 0B0
  ^^^^^^
  rank 1: 1F0 1B0 1F1 1B1`},
		{"missing backward", `
			0F0 0F1 0B0 0B1
			1F0 1B0 1F1`, `
rank 1: the backward 1B1 is missing (or 1I1 and 1W1)
  step      0   1   2   3
  rank 0: 0F0 0F1 0B0 0B1
  rank 1: 1F0 1B0 1F1
  ^^^^^^`},
		{"missing weight gradient", `
			0F0 0F1 0I0 0W0 0I1
			1F0 1B0 1F1 1B1`, `
rank 0: 0W1 is missing
  step      0   1   2   3   4
  rank 0: 0F0 0F1 0I0 0W0 0I1
  ^^^^^^
  rank 1: 1F0 1B0 1F1 1B1`},
		{"wrong rank", `
			0F0 0F1 0B0 0B1 1F1
			1F0 1B0 1B1`, `
rank 0, step 4: stage 1 belongs to rank 1
  step      0   1   2   3   4
  rank 0: 0F0 0F1 0B0 0B1 1F1
                          ^^^
  rank 1: 1F0 1B0 1B1`},
		{"B before F", `
			0F0 0B0 0B1 0F1
			1F0 1B0 1F1 1B1`, `
rank 0, step 2: 0B1 comes before its forward 0F1
  step      0   1   2   3
  rank 0: 0F0 0B0 0B1 0F1
                  ^^^
  rank 1: 1F0 1B0 1F1 1B1`},
		{"W before I", `
			0F0 0F1 0W0 0I0 0B1
			1F0 1B0 1F1 1B1`, `
rank 0, step 2: 0W0 comes before its input gradient 0I0
  step      0   1   2   3   4
  rank 0: 0F0 0F1 0W0 0I0 0B1
                  ^^^
  rank 1: 1F0 1B0 1F1 1B1`},
		{"B and I", `
			0F0 0F1 0B0 0I0 0B1
			1F0 1B0 1F1 1B1`, `
rank 0, step 3: 0I0 repeats part of another backward: a stage and microbatch has either one B, or one I and one W
  step      0   1   2   3   4
  rank 0: 0F0 0F1 0B0 0I0 0B1
                      ^^^
  rank 1: 1F0 1B0 1F1 1B1`},
		{"I and B", `
			0F0 0F1 0I0 0B0 0B1
			1F0 1B0 1F1 1B1`, `
rank 0, step 3: 0B0 repeats part of another backward: a stage and microbatch has either one B, or one I and one W
  step      0   1   2   3   4
  rank 0: 0F0 0F1 0I0 0B0 0B1
                      ^^^
  rank 1: 1F0 1B0 1F1 1B1`},
		{"no such stage", `
			0F0 7F0`, `
rank 0, step 1: stage 7 is outside 0 to 1
  step      0   1
  rank 0: 0F0 7F0
              ^^^`},
		{"no such microbatch, in a long row", `
			0F0 0F1 0B0 0B1
			1F0 1B0 1F1 1B1 1F12 1F3 1F4 1F5 1F6`, `
rank 1, step 4: microbatch 12 is outside 0 to 1
  step       0    1    2    3    4    5    6    7
  rank 0:  0F0  0F1  0B0  0B1
  rank 1:  1F0  1B0  1F1  1B1 1F12  1F3  1F4  1F5 …
                              ^^^^`},
		{"the middle of a long row", `
			0F0 0F1 0B0 0B1
			1F0 1F1 1I0 1I1 1W0 1W0 1B0 1B1 1B2 1B3`, `
rank 1, step 5: 1W0 appears twice
  step      1   2   3   4   5   6   7   8
  rank 0: 0F1 0B0 0B1
  rank 1: 1F1 1I0 1I1 1W0 1W0 1B0 1B1 1B2 …
                          ^^^`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := ordertest.Parse(t, c.order).Validate(graph.Placement{First: []int32{0, 1}}, 2)
			require.EqualError(t, err, strings.TrimPrefix(c.want, "\n"))
			var place *order.Error
			require.True(t, errors.As(err, &place))
		})
	}
}

func TestOrderErrorOfOtherKind(t *testing.T) {
	o := order.Order{{{Kind: graph.SendForward}}}
	require.EqualError(t, o.Validate(graph.Placement{First: []int32{0}}, 1), `rank 0, step 0: SEND_F is not a compute action; only F, B, I and W are
  step           0
  rank 0: 0SEND_F0
          ^^^^^^^^`)
}

// A legal order from which one action is dropped, or in which one is doubled,
// is not legal any more.
func TestOrderErrorsAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks, m := rapid.IntRange(1, 5).Draw(t, "ranks"), rapid.IntRange(1, 6).Draw(t, "microbatches")
		o := ordertest.Order(t, rapid.SampledFrom([]string{"gpipe", "1f1b", "torchgpipe"}).Draw(t, "name"), ranks, m)
		stages := graph.InOrder(ranks).First
		require.NoError(t, o.Validate(graph.Placement{First: stages}, m))
		r := rapid.IntRange(0, ranks-1).Draw(t, "rank")
		i := rapid.IntRange(0, len(o[r])-1).Draw(t, "index")
		dropped := append(append([]order.Action{}, o[r][:i]...), o[r][i+1:]...)
		doubled := append(append([]order.Action{}, o[r]...), o[r][i])
		for _, row := range [][]order.Action{dropped, doubled} {
			o[r] = row
			var place *order.Error
			require.ErrorAs(t, o.Validate(graph.Placement{First: stages}, m), &place)
			require.Equal(t, r, place.Rank)
		}
	})
}

func TestPairErrors(t *testing.T) {
	o := ordertest.Parse(t, "0F0 0F1 0B0 0B1")
	o[0][1].Pair = true
	require.NoError(t, o.Validate(graph.Placement{First: []int32{0}}, 2))
	o = ordertest.Parse(t, "0F0 0B0 0F1 0B1")
	o[0][1].Pair = true
	require.ErrorContains(t, o.Validate(graph.Placement{First: []int32{0}}, 2), "rank 0, step 1: 0B0 does not begin a pair: an overlapped pair is an F and the B after it\n")
}
