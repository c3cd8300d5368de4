package schedules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// drawServed draws a schedule of the catalog and a shape that it serves.
func drawServed(t *rapid.T) (schedules.Schedule, graph.Shape) {
	s := rapid.SampledFrom(schedules.Catalog()).Draw(t, "schedule")
	return s, rapid.SampledFrom(ordertest.Served(s, 6, 14, 4)).Draw(t, "shape")
}

// Every stage and microbatch has one forward, and one backward, whole or in its
// two halves, on the rank that the stage is on for that microbatch; a rank takes
// the forwards of a stage in order, and its backwards in order or the other way
// round.
func TestEachOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, shape := drawServed(t)
		p := ordertest.Shaped(t, s.Name, shape)
		g := ordertest.Graph(t, p)
		count := map[order.Action]int{}
		type list struct {
			rank, stage int
			kind        graph.Kind
		}
		lists := map[list][]int32{}
		for r, actions := range p.Order {
			for _, a := range actions {
				a.Pair = false
				count[a]++
				require.EqualValues(t, r, g.Placement.Rank(a.Stage, a.Microbatch), "%v", a)
				kind := a.Kind
				if kind == graph.InputGradient {
					kind = graph.Backward
				}
				lists[list{r, int(a.Stage), kind}] = append(lists[list{r, int(a.Stage), kind}], a.Microbatch)
			}
		}
		for stage := range int32(len(p.Placement.First)) {
			for m := range int32(shape.Microbatches) {
				of := func(k graph.Kind) int {
					return count[order.Action{Kind: k, Stage: stage, Microbatch: m}]
				}
				require.Equal(t, 1, of(graph.Forward), "%dF%d", stage, m)
				require.Equal(t, 1, of(graph.Backward)+of(graph.InputGradient), "%dB%d", stage, m)
				require.Equal(t, of(graph.InputGradient), of(graph.WeightGradient), "%dW%d", stage, m)
			}
		}
		for at, microbatches := range lists {
			if at.kind != graph.WeightGradient {
				requireMonotone(t, microbatches, at.kind == graph.Backward)
			}
		}
	})
}

// requireMonotone requires a list that rises, or falls if it may.
func requireMonotone(t *rapid.T, list []int32, mayFall bool) {
	rises, falls := true, mayFall
	for i := 1; i < len(list); i++ {
		rises, falls = rises && list[i-1] < list[i], falls && list[i-1] > list[i]
	}
	require.True(t, rises || falls, "%v", list)
}

// Written and read again, an order of the catalog is the same, pairs included;
// so it is with messages, whose pairs are two actions, and which let it run to its
// end. As a schedule of its own it has the shape, the placement and the order of
// the one that it came from.
func TestCatalogRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, shape := drawServed(t)
		p := ordertest.Shaped(t, s.Name, shape)
		back, err := order.ReadCSV(strings.NewReader(ordertest.CSV(t, p.Order)))
		require.NoError(t, err)
		require.Equal(t, p.Order, back)
		if p.Placement.Second != nil {
			return // PyTorch's notation has one copy of a stage
		}
		own, size, err := schedules.Custom("mine.csv", back)
		require.NoError(t, err)
		require.Equal(t, p.Placement, own.Placement(size))
		require.Equal(t, p.Shape, size)

		whole, err := p.Order.WithMessages()
		require.NoError(t, err)
		back, err = order.ReadCSV(strings.NewReader(ordertest.CSV(t, whole)))
		require.NoError(t, err)
		require.Equal(t, whole, back)
		own, size, err = schedules.Custom("mine.csv", back)
		require.NoError(t, err)
		computed, err := own.Order(size, nil)
		require.NoError(t, err)
		for r := range p.Order {
			for i := range p.Order[r] {
				p.Order[r][i].Pair = false
			}
		}
		require.Equal(t, p.Order, computed)
		require.NoError(t, back.Hang(false))

		// PyTorch 2.15's form: every send has its wait, and the order runs as before.
		waits := whole.WithWaits()
		require.NoError(t, waits.CheckMessages(p.Placement))
		require.NoError(t, waits.Hang(true))
		require.Equal(t, whole, waits.WithoutWaits())
	})
}

// UNSHARD, RESHARD and REDUCE_GRAD, wherever they stand, are kept in what is
// written and change nothing of what is computed, sent or waited for.
func TestShardingCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, shape := drawServed(t)
		p := ordertest.Shaped(t, s.Name, shape)
		if p.Placement.Second != nil {
			t.Skip("PyTorch's notation has one copy of a stage")
		}
		plain, err := p.Order.WithMessages()
		require.NoError(t, err)
		sprinkled := make(order.Order, len(plain))
		for r, actions := range plain {
			for _, a := range actions {
				if kind := rapid.IntRange(0, 9).Draw(t, "kind"); kind < 3 {
					sprinkled[r] = append(sprinkled[r], order.Action{Kind: graph.Unshard + graph.Kind(kind), Stage: stageOn(p.Placement.First, r), Microbatch: graph.None})
				}
				sprinkled[r] = append(sprinkled[r], a)
			}
		}
		back, err := order.ReadCSV(strings.NewReader(ordertest.CSV(t, sprinkled)))
		require.NoError(t, err)
		require.Equal(t, sprinkled, back)
		require.NoError(t, back.Hang(false))
		own, size, err := schedules.Custom("mine.csv", back)
		require.NoError(t, err)
		require.Equal(t, back.HasSharding(), own.LeftOut != "")
		computed, err := own.Order(size, nil)
		require.NoError(t, err)
		require.Equal(t, plain.Compute(), computed)

		// Without messages they may stand too, and messages can be added.
		withOut := make(order.Order, len(sprinkled))
		for r, actions := range sprinkled {
			for _, a := range actions {
				if a.Kind.Compute() || a.Microbatch == graph.None {
					withOut[r] = append(withOut[r], a)
				}
			}
		}
		again, err := withOut.WithMessages()
		require.NoError(t, err)
		require.Equal(t, plain.Compute(), again.Compute())
		require.Equal(t, back.HasSharding(), again.HasSharding())
		require.NoError(t, again.Hang(false))
	})
}

// stageOn is the first stage of a rank.
func stageOn(stageRank []int32, rank int) int32 {
	for s, r := range stageRank {
		if int(r) == rank {
			return int32(s)
		}
	}
	return graph.None
}
