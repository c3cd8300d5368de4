package schedules_test

import (
	"fmt"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// The GPipe schedule of three stages and two microbatches, and what its second
// rank does, message included.
func Example() {
	gpipe, err := schedules.Find("gpipe")
	if err != nil {
		panic(err)
	}
	shape := graph.Shape{Ranks: 3, Microbatches: 2}
	o, err := gpipe.Order(shape, nil)
	if err != nil {
		panic(err)
	}
	fmt.Print(o)

	g, err := wiring.Pipeline{Name: "gpipe", Shape: shape, Order: o}.Graph()
	if err != nil {
		panic(err)
	}
	for i, task := range g.Tasks() {
		if task.Rank == 1 {
			fmt.Println(g.Describe(int32(i)))
		}
	}
	// Output:
	// 0F0 0F1 0B0 0B1
	// 1F0 1F1 1B0 1B1
	// 2F0 2F1 2B0 2B1
	// 1F0 (forward, stage 1, microbatch 0; rank 1, stream "compute")
	// 1SEND_F0 to rank 2 (activations sent, stage 1, microbatch 0; rank 1, stream "send F to 2")
	// 1F1 (forward, stage 1, microbatch 1; rank 1, stream "compute")
	// 1SEND_F1 to rank 2 (activations sent, stage 1, microbatch 1; rank 1, stream "send F to 2")
	// 1B0 (backward, stage 1, microbatch 0; rank 1, stream "compute")
	// 1SEND_B0 to rank 0 (gradients sent, stage 1, microbatch 0; rank 1, stream "send B to 0")
	// 1B1 (backward, stage 1, microbatch 1; rank 1, stream "compute")
	// 1SEND_B1 to rank 0 (gradients sent, stage 1, microbatch 1; rank 1, stream "send B to 0")
}
