package order_test

import (
	"fmt"
	"strings"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// An illegal order is reported where it is wrong.
func ExampleOrder_Validate() {
	o := order.Order{{
		{Kind: graph.Forward, Stage: 0, Microbatch: 0},
		{Kind: graph.Backward, Stage: 0, Microbatch: 1},
	}}
	fmt.Println(o.Validate(graph.Placement{First: []int32{0}}, 2))
	// Output:
	// rank 0, step 1: 0B1 comes before its forward 0F1
	//   step      0   1
	//   rank 0: 0F0 0B1
	//               ^^^
}

// An order is read in PyTorch's notation, and says what goes between its ranks.
func ExampleOrder_WithMessages() {
	o, err := order.ReadCSV(strings.NewReader("0F0,0B0\n1F0,1B0\n"))
	if err != nil {
		panic(err)
	}
	all, err := o.WithMessages()
	if err != nil {
		panic(err)
	}
	fmt.Print(all)
	// Output:
	// 0F0 0SEND_F0 0RECV_B0 0B0
	// 1RECV_F0 1F0 1B0 1SEND_B0
}

// What an action needs is one rule.
func ExampleAction_Needs() {
	own, neighbour := order.B(2, 0).Needs(4)
	fmt.Println(own, neighbour)
	// Output: 2F0 3B0
}
