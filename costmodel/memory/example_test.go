package memory_test

import (
	"fmt"

	"psim/costmodel/memory"
	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/schedules"
	"psim/schedules/graph"
)

// GPT-2 on two ranks under 1F1B: what lasts, and how the first forward of each rank
// changes the live bytes.
func ExampleLedger() {
	network, err := models.Model{Preset: "gpt2", SequenceLength: 128}.Network()
	if err != nil {
		panic(err)
	}
	w := stages.Workload{Network: network, Layers: []int{7, 8}, Placement: graph.InOrder(2), Samples: []int64{2, 2}}
	staged := w.Staged()
	schedule, err := schedules.Find("1f1b")
	if err != nil {
		panic(err)
	}
	pipeline, err := schedule.Pipeline(graph.Shape{Ranks: 2, Microbatches: 2}, nil)
	if err != nil {
		panic(err)
	}
	staged.Fill(&pipeline)
	g, err := pipeline.Graph()
	if err != nil {
		panic(err)
	}
	fmt.Println("persistent:", memory.Persistent(staged, g.Ranks()))
	ledger := memory.NewLedger(staged, g)
	for i := range int32(g.Len()) {
		if t := new(g.Task(i)); t.Kind == graph.Forward && t.Microbatch == 0 {
			start, end := ledger.Task(t)
			fmt.Println(t, start, end)
		}
	}
	// Output:
	// persistent: [1310576640 1298018304]
	// 0F0 85722112 0
	// 1F0 137185284 0
}
