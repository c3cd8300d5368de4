package training_test

import (
	"fmt"

	"psim/costmodel/models"
	"psim/costmodel/training"
)

// What a parameter of GPT-2 and a block of it take in memory, by how it is trained.
func Example() {
	n, err := models.Model{Preset: "gpt2", SequenceLength: 128}.Network()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range []training.Options{
		{},
		{Precision: "bf16"},
		{Precision: "bf16", Optimizer: "sgd-momentum", Recompute: "full"},
	} {
		s, block := t.State(), n.Layers[1]
		var kept int64
		for _, b := range t.Kept(block) {
			kept += b.Bytes(t.ActivationElement())
		}
		fmt.Printf("%d+%d+%d bytes a parameter; a block keeps %d bytes a sample and repeats %d of %d operations\n",
			s.Parameter, s.Gradient, s.Optimizer, kept, len(t.Repeated(block)), len(block.Ops))
	}
	// Output:
	// 4+4+8 bytes a parameter; a block keeps 7077888 bytes a sample and repeats 0 of 12 operations
	// 2+2+12 bytes a parameter; a block keeps 3538944 bytes a sample and repeats 0 of 12 operations
	// 2+2+8 bytes a parameter; a block keeps 196608 bytes a sample and repeats 12 of 12 operations
}
