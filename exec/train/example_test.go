package train_test

import (
	"context"
	"fmt"

	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/kernels"
	"psim/exec/train"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// A pipeline of two devices trains a perceptron for three steps on the same batch.
func Example() {
	network, _ := models.Model{Family: "mlp", Layers: 4, Hidden: 8}.Network()
	shape := graph.Shape{Ranks: 2, Microbatches: 4}
	schedule, _ := schedules.Find("1f1b")
	order, _ := schedule.Order(shape, nil)
	work := stages.Workload{
		Network: network, Layers: []int{2, 2}, Placement: graph.InOrder(2), Samples: []int64{3, 3, 3, 3},
	}
	staged := work.Staged()
	pipeline := wiring.Pipeline{Name: "1f1b", Shape: shape, Order: order, Optimizer: true}
	staged.Fill(&pipeline)
	g, _ := pipeline.Graph()
	devices, err := backend.Open(2, backend.Options{Oversubscribe: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close(devices)
	job := train.Job{Graph: g, Staged: staged, Optimizer: kernels.DefaultOptimizer("adamw"), Seed: 1}
	trainer, err := train.NewTrainer(job, devices)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer trainer.Close()
	source, _ := data.NewSource(data.Options{}, network, job.PerReplica(), 3)
	trained, err := trainer.Train(context.Background(), source, train.Options{Steps: 3})
	losses := trained.Record.Losses
	fmt.Println(len(trained.Traces), "steps,", "the loss falls:", losses[2] < losses[0], err)
	// Output: 3 steps, the loss falls: true <nil>
}
