package psim_test

import (
	"context"
	"fmt"

	"psim"
)

// The data set of an experiment makes epochs, and shards of its replicas.
func ExamplePrediction_Shards() {
	c, err := psim.Load("ddp", "parallel.data=2", "batch.global=4", "batch.micro=2", "data.samples=10")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := psim.Predict(context.Background(), c)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Result.Epochs.Steps, "steps, the last with", p.Result.Epochs.LastBatch, "of 4 samples")
	shuffled, _ := p.Shards(false)
	strided, _ := p.Shards(true)
	fmt.Println(shuffled[0].Samples, strided[0].Samples)
	// Output:
	// 3 steps, the last with 2 of 4 samples
	// [2 8 3 5 6] [0 2 4 6 8]
}
