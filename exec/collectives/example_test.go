package collectives_test

import (
	"context"
	"fmt"

	"psim/exec/backend"
	"psim/exec/collectives"
	"psim/schedules/collective"
)

// A ring sums a thousand numbers over two devices. Every number is checked, and every task
// timed.
func ExampleBenchmark() {
	devices, err := backend.Open(2, backend.Options{Oversubscribe: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close(devices)
	b := collectives.Benchmark{
		Call:    collective.Call{Collective: collective.RingAllReduce, Ranks: 2, Length: 1000},
		Repeats: 1,
	}
	result, err := b.Measure(context.Background(), devices)
	fmt.Println(len(result.Alone), "tasks,", result.Wrong, "wrong numbers,", err)
	// Output: 8 tasks, 0 wrong numbers, <nil>
}
