package reports_test

import (
	"os"
	"time"

	"psim/reports"
	"psim/schedules"
	"psim/sim"
)

func Example() {
	shape := schedules.Shape{Ranks: 4, Microbatches: 6}
	schedule, _ := schedules.Find("1f1b")
	order, _ := schedule.Order(shape, nil)
	graph, _ := schedules.Pipeline{Name: "1f1b", Shape: shape, Order: order}.Graph()
	trace, _ := sim.Run(graph, schedules.Costs{Task: func(t *schedules.Task) schedules.Cost {
		switch t.Kind {
		case schedules.Forward:
			return schedules.Cost{Busy: 10 * time.Millisecond}
		case schedules.Backward:
			return schedules.Cost{Busy: 20 * time.Millisecond}
		}
		return schedules.Cost{}
	}})
	reports.Gantt(os.Stdout, trace, reports.GanttOptions{})
	// Output:
	// rank 0 |F0F1F2F3............B0--F4B1--F5B2--..B3--..B4--..B5--|
	// rank 1 |..F0F1F2........B0--F3B1--F4B2--F5B3--..B4--..B5--....|
	// rank 2 |....F0F1....B0--F2B1--F3B2--F4B3--F5B4--..B5--........|
	// rank 3 |......F0B0--F1B1--F2B2--F3B3--F4B4--F5B5--............|
	//        0                                                 270 ms
	//        F forward   B backward   . idle
}
