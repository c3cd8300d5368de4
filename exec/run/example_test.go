package run_test

import (
	"context"
	"fmt"
	"sync"

	"psim/exec/cluster"
	"psim/exec/run"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// The runner knows the graph; the caller knows what tasks do.
func ExampleGraph() {
	shape := graph.Shape{Ranks: 2, Microbatches: 1}
	schedule, _ := schedules.Find("gpipe")
	order, _ := schedule.Order(shape, nil)
	g, _ := wiring.Pipeline{Name: "gpipe", Shape: shape, Order: order}.Graph()
	_, err := run.Graph(context.Background(), g, func(_ context.Context, i int32) error {
		fmt.Println(g.Task(i))
		return nil
	}, run.Options{})
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

// Two processes run a pipeline together, each the tasks of its own rank. Here they are
// goroutines; psim starts copies of itself.
func ExampleGraph_processes() {
	order, _ := schedules.Find("gpipe")
	shape := graph.Shape{Ranks: 2, Microbatches: 2}
	actions, _ := order.Order(shape, nil)
	g, _ := wiring.Pipeline{Name: "gpipe", Shape: shape, Order: actions}.Graph()
	invitation, _ := cluster.Invite(2)
	var performed [2]int
	var all sync.WaitGroup
	for k := range performed {
		all.Go(func() {
			w, err := invitation.Join(context.Background(), k, cluster.Options{})
			if err != nil {
				fmt.Println(err)
				return
			}
			defer w.Close()
			var mu sync.Mutex // tasks of different streams run at the same time
			_, err = run.Graph(context.Background(), g, func(context.Context, int32) error {
				mu.Lock()
				defer mu.Unlock()
				performed[k]++
				return nil
			}, run.Options{World: w})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	fmt.Println(performed, "of", g.Len(), "tasks")
	// Output: [6 6] of 12 tasks
}
