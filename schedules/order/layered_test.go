package order_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// Layers run in the order of their stages, forwards from the first to the last and others back, so that each layer by
// itself has the order of its stage, and all of them make a training step.
func TestLayered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ordertest.Draw(t)
		stages := p.Placement.Stages()
		layers := rapid.SliceOfN(rapid.IntRange(1, 3), stages, stages).Draw(t, "layers")
		var of, ranks []int32 // by layer: its stage and rank
		for s, n := range layers {
			of = append(of, slices.Repeat([]int32{int32(s)}, n)...)
			ranks = append(ranks, slices.Repeat([]int32{p.Placement.First[s]}, n)...)
		}
		cut := p.Order.Layered(layers)
		require.NoError(t, cut.Validate(graph.Placement{First: ranks}, p.Shape.Microbatches))
		for l := range of {
			whole := make(order.Order, len(p.Order))
			own := make(order.Order, len(p.Order))
			for r := range cut {
				for _, a := range cut[r] {
					if int(a.Stage) == l {
						a.Stage = of[l]
						own[r] = append(own[r], a)
					}
				}
				for _, a := range p.Order[r] {
					if a.Stage == of[l] {
						whole[r] = append(whole[r], a)
					}
				}
			}
			require.Equal(t, whole, own)
		}
	})
	one := order.Order{{order.F(0, 0), order.F(1, 0), order.B(1, 0), order.B(0, 0)}}
	require.Equal(t, order.Order{{
		order.F(0, 0), order.F(1, 0), order.F(2, 0), order.F(3, 0),
		order.B(3, 0), order.B(2, 0), order.B(1, 0), order.B(0, 0),
	}}, one.Layered([]int{1, 3}))
	require.Equal(t, one, one.Layered([]int{1, 1}))
}
