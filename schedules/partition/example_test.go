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

// Three layers on devices 0, 0 and 1 become two stages, the first of two layers.
func ExampleTagged() {
	sizes, placement := partition.Tagged([]int32{0, 0, 1})
	fmt.Println(sizes, placement)
	// Output: [2 1] [0 1]
}
