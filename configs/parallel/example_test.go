package parallel_test

import (
	"fmt"

	"psim/configs/parallel"
)

// Of 32 samples, one replica takes half and two a quarter each, in two microbatches.
func ExampleBatch_Divide() {
	b := parallel.Batch{Global: 32, Shards: []float64{0.5, 0.25, 0.25}}
	_, shards, err := b.Divide(3, 2)
	fmt.Println(shards, err)
	_, _, err = b.Divide(3, 3)
	fmt.Println(err)
	// Output:
	// [8 4 4] <nil>
	// shards = [0.5 0.25 0.25]: the 16 samples of replica 0 cannot be cut into schedule.microbatches = 3 of whole samples
}
