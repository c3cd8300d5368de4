package exec_test

import (
	"context"
	"fmt"
	"sync"

	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/exec"
	"psim/exec/processes"
	"psim/exec/programs"
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
		fmt.Println(g.Task(i))
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

// Two processes run a pipeline together, each the tasks of its own rank. Here they are
// goroutines; psim starts copies of itself.
func ExampleRun_processes() {
	order, _ := schedules.Find("gpipe")
	shape := graph.Shape{Ranks: 2, Microbatches: 2}
	actions, _ := order.Order(shape, nil)
	g, _ := wiring.Pipeline{Name: "gpipe", Shape: shape, Order: actions}.Graph()
	invitation, _ := processes.Invite(2)
	var performed [2]int
	var all sync.WaitGroup
	for k := range performed {
		all.Go(func() {
			w, err := invitation.Join(context.Background(), k, processes.Options{})
			if err != nil {
				fmt.Println(err)
				return
			}
			defer w.Close()
			var mu sync.Mutex // tasks of different streams run side by side
			_, err = exec.Run(context.Background(), g, func(context.Context, int32) error {
				mu.Lock()
				defer mu.Unlock()
				performed[k]++
				return nil
			}, exec.RunOptions{World: w})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	all.Wait()
	fmt.Println(performed, "of", g.Len(), "tasks")
	// Output: [6 6] of 12 tasks
}

// A network is trained on two devices of this machine for three steps, of which
// two are measured, and compared with an unsplit run.
func ExampleMeasure() {
	network, _ := models.Model{Family: "mlp", Layers: 4, Hidden: 8}.Network()
	shape := graph.Shape{Ranks: 2, Microbatches: 4}
	schedule, _ := schedules.Find("1f1b")
	order, _ := schedule.Order(shape, nil)
	work := stages.Workload{Network: network, Layers: []int{2, 2}, Placement: graph.InOrder(2), Samples: []int64{3, 3, 3, 3}}
	staged := work.Staged()
	pipeline := wiring.Pipeline{Name: "1f1b", Shape: shape, Order: order, Optimizer: true}
	staged.Fill(&pipeline)
	g, _ := pipeline.Graph()
	job := exec.Job{Graph: g, Staged: staged, Optimizer: programs.DefaultOptimizer("adamw"), Seed: 1}
	m, err := exec.Measure(context.Background(), job, exec.MeasureOptions{
		Devices:      exec.DeviceOptions{Oversubscribe: true},
		TrainOptions: exec.TrainOptions{Warmup: 1, Steps: 2},
		Repeats:      1,
		Probe:        true,
		Checks:       exec.CheckNames(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(m.Profile.Alone), "profile,", len(m.Traces), "steps,", len(m.Record.Losses), "losses")
	fmt.Println("it took some time:", m.Traces[0].End() > 0)
	fmt.Println("the ledger counted on both devices:", m.Traces[0].Persistent[0] > 0 && m.Traces[0].Persistent[1] > 0)
	fmt.Println("probes of the machine:", len(m.Probes), m.Probes[0].Fastest > 0, m.Probes[0].Mean >= m.Probes[0].Fastest)
	fmt.Println("checks:", m.Verdict.Err())
	// Output:
	// 1 profile, 2 steps, 4 losses
	// it took some time: true
	// the ledger counted on both devices: true
	// probes of the machine: 3 true true
	// checks: <nil>
}
