package wiring_test

import (
	"fmt"
	"strings"

	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// Two stages, one microbatch: wiring adds the messages between the ranks, and what
// every task waits for beyond the one before it on its stream.
func Example() {
	o, err := order.ReadCSV(strings.NewReader("0F0,0B0\n1F0,1B0\n"))
	if err != nil {
		panic(err)
	}
	g, err := wiring.Pipeline{Shape: graph.Shape{Ranks: 2, Microbatches: 1}, Order: o}.Graph()
	if err != nil {
		panic(err)
	}
	for i, task := range g.Tasks() {
		fmt.Print(task)
		for _, d := range g.Deps(i) {
			fmt.Print(" after ", g.Task(d))
		}
		fmt.Println()
	}
	// Output:
	// 0F0
	// 0SEND_F0 after 0F0
	// 0B0 after 1SEND_B0
	// 1F0 after 0SEND_F0
	// 1B0
	// 1SEND_B0 after 1B0
}
