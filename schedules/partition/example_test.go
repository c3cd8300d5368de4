package partition_test

import (
	"fmt"

	"psim/schedules/partition"
)

// Six layers, the last of which costs as much as three others: cut by number, the
// last stage takes twice as long as the first.
func Example() {
	costs := []float64{1, 1, 1, 1, 1, 3}
	equal, _ := partition.Equal(len(costs), 2)
	balanced, _ := partition.Balanced(costs, 2)
	fmt.Println(equal, balanced)
	// Output: [3 3] [4 2]
}
