package exec_test

import (
	"context"
	"fmt"

	"psim/exec"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// The runner knows the graph; what a task does is the caller's.
func ExampleRun() {
	shape := graph.Shape{Ranks: 2, Microbatches: 1}
	schedule, _ := schedules.Find("gpipe")
	order, _ := schedule.Order(shape, nil)
	g, _ := wiring.Pipeline{Name: "gpipe", Shape: shape, Order: order}.Graph()
	_, err := exec.Run(context.Background(), g, func(_ context.Context, i int32) error {
		fmt.Println(g.Tasks[i])
		return nil
	}, exec.RunOptions{})
	fmt.Println(err)
	// Output:
	// 0F0
	// 0SEND_F0
	// 1F0
	// 1B0
	// 1SEND_B0
	// 0B0
	// <nil>
}
