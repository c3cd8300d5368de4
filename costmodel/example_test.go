package costmodel_test

import (
	"fmt"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// GPT-2 in two stages, four microbatches of two samples each.
func ExampleStepCosts() {
	network, err := models.Model{Preset: "gpt2", SequenceLength: 128}.Network()
	if err != nil {
		panic(err)
	}
	w := stages.Workload{
		Network: network, Layers: []int{7, 8}, Placement: graph.Placement{First: []int32{0, 1}}, Samples: []int64{2, 2, 2, 2},
	}
	staged := w.Staged()
	fmt.Printf("%d and %d parameters, %d of them twice\n", staged.Stages[0].Parameters, staged.Stages[1].Parameters, staged.Tied[0].Bytes/4)

	gpipe, err := schedules.Find("gpipe")
	if err != nil {
		panic(err)
	}
	shape := graph.Shape{Ranks: 2, Microbatches: 4}
	order, err := gpipe.Order(shape, w.Placement.First)
	if err != nil {
		panic(err)
	}
	pipeline := wiring.Pipeline{Shape: shape, Order: order, Optimizer: true}
	staged.Fill(&pipeline)
	g, err := pipeline.Graph()
	if err != nil {
		panic(err)
	}
	costs, err := costmodel.StepCosts(costmodel.Machine{
		Device: costmodel.Device{
			MemoryBandwidth: 1e12, Peak: costmodel.Peak{FP32: 20e12}, Efficiency: costmodel.Efficiency{FP32: 0.8, Memory: 0.8},
		},
		Link: link.Link{Bandwidth: 25e9, Latency: 5000},
	}, staged, g)
	if err != nil {
		panic(err)
	}
	trace, err := sim.Run(g, costs)
	if err != nil {
		panic(err)
	}
	for _, rank := range graph.Summarize(trace).Ranks {
		fmt.Printf("rank %d: %.2f GB for good, %.2f GB at most\n", rank.Rank, float64(rank.PersistentMemory)/1e9, float64(rank.PeakMemory)/1e9)
	}
	// Output:
	// 81911040 and 81126144 parameters, 38597376 of them twice
	// rank 0: 1.31 GB for good, 1.65 GB at most
	// rank 1: 1.30 GB for good, 1.85 GB at most
}
