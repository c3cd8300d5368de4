package parallel

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"psim/internal/units"
)

// Divide cuts a batch into microbatches and returns the samples of each. With equal shares it
// does what Samples does, and shards is nil. Otherwise shards holds the samples of a microbatch
// by replica, and samples are those of the replica with the largest share.
func (b Batch) Divide(replicas, microbatches int) (samples, shards []int64, err error) {
	if b.Shards == nil {
		samples, err = b.Samples(replicas, microbatches)
		return samples, nil, err
	}
	if shards, err = b.divideUnequally(replicas, int64(max(1, microbatches))); err != nil {
		return nil, nil, err
	}
	samples = slices.Repeat([]int64{slices.Max(shards)}, max(1, microbatches))
	if slices.Min(shards) == samples[0] {
		shards = nil
	}
	return samples, shards, nil
}

// slack bounds how far from a whole number of samples decimals such as 0.333333 may be,
// as a part of the batch.
const slack = 1e-5

// divideUnequally returns the samples of a microbatch, by replica.
func (b Batch) divideUnequally(replicas int, microbatches int64) ([]int64, error) {
	switch {
	case len(b.Shards) != replicas:
		return nil, fmt.Errorf("shards = %v: %s for parallel.data = %d; give one for each replica", b.Shards,
			units.Plural(len(b.Shards), "share"), replicas)
	case b.Global == 0:
		return nil, errors.New("shards: are shares of batch.global, which is missing; give the samples per step")
	case b.Micro > 0:
		return nil, fmt.Errorf("micro = %d: with batch.shards, microbatches of replicas differ in size; "+
			"remove micro, and give schedule.microbatches", b.Micro)
	}
	var sum float64
	shards := make([]int64, replicas)
	for r, share := range b.Shards {
		n := share * float64(b.Global)
		whole := int64(math.Round(n))
		switch {
		case !(share > 0 && share <= 1):
			return nil, fmt.Errorf("shards = %v: %g, the share of replica %d, must be more than 0 and at most 1",
				b.Shards, share, r)
		case math.Abs(n-float64(whole)) > slack*float64(b.Global) || whole == 0:
			return nil, fmt.Errorf("shards = %v: %g of batch.global = %d are %.4g samples on replica %d; "+
				"shares must be whole numbers of samples", b.Shards, share, b.Global, n, r)
		case whole%microbatches != 0:
			return nil, fmt.Errorf("shards = %v: the %s of replica %d cannot be cut into schedule.microbatches = %d "+
				"of whole samples", b.Shards, units.Plural(int(whole), "sample"), r, microbatches)
		}
		sum += share
		shards[r] = whole / microbatches
	}
	if total := microbatches * sumOf(shards); math.Abs(sum-1) > slack || total != b.Global {
		return nil, fmt.Errorf("shards = %v: they add up to %.6g, and must add up to 1", b.Shards, sum)
	}
	return shards, nil
}

func sumOf(list []int64) (sum int64) {
	for _, n := range list {
		sum += n
	}
	return sum
}
