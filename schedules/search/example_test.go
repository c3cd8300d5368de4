package search_test

import (
	"context"
	"fmt"

	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/search"
)

// The best order of two stages and three microbatches whose passes all take the same
// time, if a rank may hold two activations.
func ExampleFind() {
	found, err := search.Find(context.Background(), search.Problem{
		Ranks: 2, Microbatches: 3, Limit: []int64{2, 2},
		Step: func(a order.Action) graph.Cost {
			switch a.Kind {
			case graph.Forward:
				return graph.Cost{Busy: 1, BytesAtStart: 1}
			case graph.WeightGradient:
				return graph.Cost{Busy: 1, BytesAtEnd: -1}
			}
			return graph.Cost{Busy: 1}
		},
	})
	if err != nil {
		panic(err)
	}
	fmt.Print(found.Order)
	fmt.Printf("span %d, no order is below %d\n", found.Span, found.LowerBound)
	// Output:
	// 0F0 0F1 0I0 0W0 0F2 0I1 0W1 0I2 0W2
	// 1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2
	// span 10, no order is below 10
}
