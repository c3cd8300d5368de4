package data

import (
	"errors"
	"fmt"
	"slices"
)

// dealSeed shuffles the samples. It is fixed, so that all runs deal out the same shards.
const dealSeed = 1234

// Deal gives every rank its shard of n samples, in proportion to what each takes in a step: by
// Strided, whose shards are equal, or by Partition.
func Deal(n int, each []int64, strided bool) ([][]int, error) {
	if len(each) == 0 || slices.Min(each) == slices.Max(each) {
		if strided {
			return Strided(n, len(each))
		}
		return Partition(n, EqualFractions(len(each)), dealSeed)
	}
	if strided {
		return nil, errors.New(
			"--strided deals out equal shards, and the shares of batch.shards differ; leave one of them out")
	}
	var all int64
	for _, k := range each {
		all += k
	}
	fractions := make([]float64, len(each))
	for r, k := range each {
		fractions[r] = (1 + rounding) * float64(k) / float64(all)
	}
	return Partition(n, fractions, dealSeed)
}

// rounding keeps fractions from losing a sample, such as 7 sevenths of 7/49.
const rounding = 1e-12

// EqualFractions returns 1/ranks for each rank. Rounding may lose samples: 49 times 1/49 is
// less than 1, so 49 ranks get none of 49 samples. [Strided] loses none.
func EqualFractions(ranks int) []float64 {
	return slices.Repeat([]float64{1 / float64(ranks)}, max(ranks, 0))
}

// Partition shuffles the indices of n samples as Python's random.Random(seed).shuffle does, and
// cuts them into one shard for each fraction, of int(fraction·n) samples. Shards never overlap.
// What is left at the end belongs to no shard: 10 samples in thirds are 3, 3 and 3, and one is
// not used.
func Partition(n int, fractions []float64, seed int64) ([][]int, error) {
	if err := checkFractions(n, fractions); err != nil {
		return nil, err
	}
	rest := make([]int, n)
	for i := range rest {
		rest[i] = i
	}
	newMersenne(seed).shuffle(rest)
	shards := make([][]int, len(fractions))
	for i, f := range fractions {
		cut := min(int(f*float64(n)), len(rest))
		shards[i], rest = rest[:cut:cut], rest[cut:]
	}
	return shards, nil
}

// slack bounds how far above 1 rounding may lift a sum of fractions.
const slack = 1e-9

// checkFractions refuses fractions that cannot be cut without overlap.
func checkFractions(n int, fractions []float64) error {
	if n < 0 {
		return fmt.Errorf("partition: %d samples; must be 0 or more", n)
	}
	if len(fractions) == 0 {
		return fmt.Errorf("partition: no fractions; give one for each rank")
	}
	sum := 0.0
	for i, f := range fractions {
		if !(f >= 0 && f <= 1) {
			return fmt.Errorf("partition: fraction %d of %d is %g; must be 0 to 1", i+1, len(fractions), f)
		}
		sum += f
	}
	if sum > 1+slack {
		return fmt.Errorf("partition: the fractions add up to %g; must be at most 1", sum)
	}
	return nil
}

// Strided gives rank r the samples r, r+ranks, r+2·ranks and so on, in order. Every sample is
// in one shard; the first ranks have one more if n is not a multiple of ranks.
func Strided(n, ranks int) ([][]int, error) {
	if n < 0 {
		return nil, fmt.Errorf("strided partition: %d samples; must be 0 or more", n)
	}
	if ranks < 1 {
		return nil, fmt.Errorf("strided partition: %d ranks; must be at least 1", ranks)
	}
	shards := make([][]int, ranks)
	for r := range shards {
		shards[r] = []int{}
		for i := r; i < n; i += ranks {
			shards[r] = append(shards[r], i)
		}
	}
	return shards, nil
}
