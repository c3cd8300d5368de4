package stages_test

import (
	"fmt"
	"slices"

	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// A GPT in two stages over two replicas: gradients travel in buckets of half a
// megabyte, and leave before the backward ends.
func ExampleWorkload_Staged() {
	network, err := models.Model{Family: "gpt", Layers: 2, Hidden: 128, Heads: 4, Vocab: 500, SequenceLength: 64}.Network()
	if err != nil {
		panic(err)
	}
	w := stages.Workload{
		Network: network, Layers: []int{2, 3}, Placement: graph.InOrder(2), Samples: []int64{2, 2},
		Replicas: 2, Bucket: 500_000, Overlap: true,
	}
	staged := w.Staged()
	for s, st := range staged.Stages {
		fmt.Printf("stage %d has %d layers and %d parameters\n", s, len(st.Layers), st.Parameters)
		for k, b := range st.Buckets {
			fmt.Printf("  bucket %d: %d tensors, %d bytes\n", k, len(b.Tensors), b.Bytes)
		}
		for _, g := range st.Segments {
			fmt.Printf("  part %d of the backward begins with %s\n", g.Part, g.Layers[len(g.Layers)-1].Name)
		}
	}
	for _, t := range staged.Tied {
		fmt.Printf("%v is on stages %v\n", t.Tensors, t.Stages)
	}
	// Output:
	// stage 0 has 2 layers and 270464 parameters
	//   bucket 0: 4 tensors, 526848 bytes
	//   bucket 1: 10 tensors, 555008 bytes
	//   part 1 of the backward begins with embed
	//   part 0 of the backward begins with h.0
	// stage 1 has 3 layers and 262528 parameters
	//   bucket 0: 5 tensors, 519680 bytes
	//   bucket 1: 8 tensors, 529408 bytes
	//   bucket 2: 2 tensors, 1024 bytes
	//   part 0 of the backward begins with head
	// [wte.weight] is on stages [0 1]
}

// Under ZeRO 3 a pass of VGG16 gathers 8 layers, or 32 tensors.
func ExampleStaged_GatheredFlats() {
	network, err := models.Model{Preset: "vgg16"}.Network()
	if err != nil {
		fmt.Println(err)
		return
	}
	w := stages.Workload{
		Network: network, Layers: slices.Repeat([]int{1}, len(network.Layers)), Placement: graph.Placement{First: make([]int32, len(network.Layers))},
		Samples: []int64{64}, Replicas: 4, Zero: 3,
	}
	for _, w.PerTensor = range []bool{false, true} {
		staged, gathers := w.Staged(), 0
		for s := range staged.Stages {
			gathers += len(staged.GatheredFlats(s))
		}
		fmt.Println(gathers)
	}
	// Output:
	// 8
	// 32
}
