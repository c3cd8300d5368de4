package link_test

import (
	"fmt"

	"psim/costmodel/link"
	"psim/schedules/graph"
)

// Ten billion gradients of two bytes, summed over eight workers at 100 Gb/s.
func ExampleLink_CollectiveTime() {
	l := link.Link{Bandwidth: 12.5e9}
	fmt.Println(l.CollectiveTime(graph.AllReduce, 8, 20e9))
	// Output: 2.8s
}
