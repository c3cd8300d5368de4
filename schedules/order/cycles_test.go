package order_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// Four clock cycles of two stages and two microbatches, and as many back.
func ExampleOrder_Cycles() {
	o := order.Order{
		{order.F(0, 0), order.F(0, 1), order.B(0, 0), order.B(0, 1)},
		{order.F(1, 0), order.F(1, 1), order.B(1, 0), order.B(1, 1)},
	}
	cycles, err := o.Cycles()
	if err != nil {
		panic(err)
	}
	if err := order.WriteCycles(os.Stdout, cycles); err != nil {
		panic(err)
	}
	// Output:
	// cycle  F (microbatch,stage)  B (microbatch,stage)
	// 0      (0,0)
	// 1      (1,0) (0,1)
	// 2      (1,1)
	// 3                            (0,1)
	// 4                            (0,0) (1,1)
	// 5                            (1,0)
}

// Every action is in one cycle, on its rank; a rank has at most one in a cycle; what
// an action needs is in an earlier one, and no action could be in the cycle before.
func TestCycleLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, p := drawOrder(t)
		cycles, err := o.Cycles()
		require.NoError(t, err)
		at, next, actions := map[order.Action]int{}, make([]int, len(o)), 0
		for i, c := range cycles {
			require.NotEmpty(t, c)
			busy := map[int]bool{}
			for _, a := range c {
				require.False(t, busy[a.Rank], "rank %d runs two actions in cycle %d", a.Rank, i)
				busy[a.Rank] = true
				require.Equal(t, bare(o[a.Rank][next[a.Rank]]), a.Action)
				next[a.Rank]++
				at[a.Action] = i
				actions++
			}
		}
		require.Equal(t, o.Actions(), actions)
		for r := range o {
			for i, a := range o[r] {
				earliest := 0
				if i > 0 {
					earliest = at[bare(o[r][i-1])] + 1
				}
				_, need := a.Needs(p.Stages())
				if need.Stage != graph.None {
					made, ok := at[need]
					if !ok { // a backward in two halves
						need.Kind = graph.InputGradient
						made, ok = at[need]
					}
					require.True(t, ok, "%v needs %v", a, need)
					earliest = max(earliest, made+1)
				}
				require.Equal(t, earliest, at[bare(a)], "%v", a)
			}
		}
	})
}

// bare leaves out what does not name an action.
func bare(a order.Action) order.Action {
	a.Pair = false
	return a
}

// Orders with messages have the cycles of those without.
func TestCyclesOfMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, _ := drawOrder(t)
		want, err := o.Cycles()
		require.NoError(t, err)
		with, err := o.WithMessages()
		require.NoError(t, err)
		got, err := with.Cycles()
		require.NoError(t, err)
		require.Equal(t, want, got)
		var text strings.Builder
		require.NoError(t, order.WriteCyclesCSV(&text, got))
		require.Equal(t, o.Actions()+1, strings.Count(text.String(), "\n"))
	})
}
