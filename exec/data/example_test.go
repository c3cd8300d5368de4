package data_test

import (
	"fmt"
	"slices"

	"psim/exec/data"
)

// Two ranks share fourteen sequences that were shuffled, and train on batches of four in
// microbatches of two. The last batch is ragged.
func Example() {
	set, err := data.MakeTokens(data.TokenRecipe{Samples: 14, Sequence: 8, Vocabulary: 100, Seed: 1234})
	if err != nil {
		fmt.Println(err)
		return
	}
	shards, err := data.Partition(set.Len(), data.EqualFractions(2), 1234)
	if err != nil {
		fmt.Println(err)
		return
	}
	for rank, shard := range shards {
		for batch := range slices.Chunk(shard, 4) {
			micro := slices.Collect(slices.Chunk(batch, 2))
			last, _ := set.Batch(micro[len(micro)-1])
			fmt.Println("rank", rank, "microbatches", micro, "tokens in the last", len(last))
		}
	}
	// Output:
	// rank 0 microbatches [[4 5] [3 6]] tokens in the last 16
	// rank 0 microbatches [[13 2] [8]] tokens in the last 8
	// rank 1 microbatches [[9 10] [11 0]] tokens in the last 16
	// rank 1 microbatches [[1 7] [12]] tokens in the last 8
}

// A translation becomes one sequence: source and target, each with an end. Only the target
// sentence and its end count in the loss.
func ExampleEncodePairs() {
	set, err := data.EncodePairs([]data.Pair{{Source: "ja", Target: "yes"}}, 8)
	if err != nil {
		fmt.Println(err)
		return
	}
	inputs, targets := set.Batch([]int{0})
	fmt.Println(inputs)
	fmt.Println(targets)
	// Output:
	// [106 97 256 121 101 115 257 258]
	// [-1 -1 121 101 115 257 -1 -1]
}

// Ten samples are dealt out to two replicas: shuffled, in strides, and so that one
// replica takes four times as many as the other.
func ExampleDeal() {
	shuffled, _ := data.Deal(10, []int64{1, 1}, false)
	strided, _ := data.Deal(10, []int64{1, 1}, true)
	unequal, _ := data.Deal(10, []int64{4, 1}, false)
	fmt.Println(shuffled)
	fmt.Println(strided)
	fmt.Println(unequal)
	// Output:
	// [[2 8 3 5 6] [4 9 0 1 7]]
	// [[0 2 4 6 8] [1 3 5 7 9]]
	// [[2 8 3 5 6 4 9 0] [1 7]]
}
