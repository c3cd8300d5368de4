package measure_test

import (
	"context"
	"fmt"

	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/exec/backend"
	"psim/exec/kernels"
	"psim/exec/measure"
	"psim/exec/train"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// A network is trained on two devices of this machine for three steps, two of them measured,
// and compared with an unsplit run.
func ExampleJob() {
	network, _ := models.Model{Family: "mlp", Layers: 4, Hidden: 8}.Network()
	shape := graph.Shape{Ranks: 2, Microbatches: 4}
	schedule, _ := schedules.Find("1f1b")
	order, _ := schedule.Order(shape, nil)
	work := stages.Workload{Network: network, Layers: []int{2, 2}, Placement: graph.InOrder(2),
		Samples: []int64{3, 3, 3, 3}}
	staged := work.Staged()
	pipeline := wiring.Pipeline{Name: "1f1b", Shape: shape, Order: order, Optimizer: true}
	staged.Fill(&pipeline)
	g, _ := pipeline.Graph()
	job := train.Job{Graph: g, Staged: staged, Optimizer: kernels.DefaultOptimizer("adamw"), Seed: 1}
	m, err := measure.Job(context.Background(), job, measure.Options{
		Devices: backend.Options{Oversubscribe: true},
		Train:   train.Options{Warmup: 1, Steps: 2},
		Repeats: 1,
		Probe:   true,
		Checks:  measure.CheckNames(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(m.Profile.Alone), "profile,", len(m.Traces), "steps,", len(m.Record.Losses), "losses")
	fmt.Println("it took some time:", m.Traces[0].End() > 0)
	fmt.Println("the ledger counted on both devices:", m.Traces[0].Persistent[0] > 0 && m.Traces[0].Persistent[1] > 0)
	fmt.Println("probes of the machine:", len(m.Probes), m.Probes[0].Fastest > 0,
		m.Probes[0].Mean >= m.Probes[0].Fastest)
	fmt.Println("checks:", m.Verdict.Err())
	// Output:
	// 1 profile, 2 steps, 4 losses
	// it took some time: true
	// the ledger counted on both devices: true
	// probes of the machine: 3 true true
	// checks: <nil>
}
