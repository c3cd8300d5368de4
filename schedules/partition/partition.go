// Package partition cuts layers, given by their costs, into contiguous stages.
package partition

import (
	"fmt"
	"math"
	"slices"

	"psim/internal/units"
)

// Equal cuts n layers into stages of equal size, the first n mod
// stages one layer larger. It returns the number of layers of every stage.
func Equal(n, stages int) ([]int, error) {
	if err := check(n, stages); err != nil {
		return nil, err
	}
	sizes := make([]int, stages)
	for s := range sizes {
		sizes[s] = n / stages
		if s < n%stages {
			sizes[s]++
		}
	}
	return sizes, nil
}

// Tagged cuts layers that have ranks: a stage is a run of layers on one rank. It returns
// the number of layers of every stage, and its rank.
func Tagged(ranks []int32) (sizes []int, placement []int32) {
	for i, r := range ranks {
		if i == 0 || r != ranks[i-1] {
			sizes, placement = append(sizes, 0), append(placement, r)
		}
		sizes[len(sizes)-1]++
	}
	return sizes, placement
}

// Balanced cuts layers of the given costs into contiguous stages so
// that the most expensive stage is as cheap as it can be; among those cuts it
// takes the one whose stages are the most even, by the sum of squares; and among
// those, whatever the unit of costs, always the same one. Every stage gets at least
// one layer. Costs are finite and not negative. It takes time n² · stages.
func Balanced(costs []float64, stages int) ([]int, error) {
	n := len(costs)
	if err := check(n, stages); err != nil {
		return nil, err
	}
	for i, c := range costs {
		if !(c >= 0 && c <= math.MaxFloat64) {
			return nil, fmt.Errorf("layer %d costs %v: a cost must be finite and not negative", i, c)
		}
	}
	_, exponent := math.Frexp(slices.Max(costs)) // for squares that are neither 0 nor infinite
	sum := make([]float64, n+1)
	for i, c := range costs {
		sum[i+1] = sum[i] + math.Ldexp(c, -exponent)
	}
	bottleneck, _ := best(sum, stages, math.Inf(1), func(before, load float64) float64 { return max(before, load) })
	limit := bottleneck * (1 + rounding)
	_, sizes := best(sum, stages, limit, func(before, load float64) float64 { return before + load*load })
	return sizes, nil
}

// rounding bounds the share by which what is equal may differ, as added up in different
// orders.
const rounding = 1e-12

// best cuts layers, given by prefix sums of their costs, so that the worth of the
// stages is the least: add is that of some stages and one more. No stage is above
// the limit.
func best(sum []float64, stages int, limit float64, add func(before, load float64) float64) (float64, []int) {
	n := len(sum) - 1
	least := append([]float64{0}, slices.Repeat([]float64{math.Inf(1)}, n)...) // of the stages so far over the first i layers
	cut := make([][]int, stages)                                               // where the last of them begins
	for s := range cut {
		next := slices.Repeat([]float64{math.Inf(1)}, n+1)
		cut[s] = make([]int, n+1)
		for i := s + 1; i <= n; i++ {
			for j := i - 1; j >= s; j-- {
				load := sum[i] - sum[j]
				if load > limit || add(0, load) >= next[i] { // and so for all that are longer
					break
				}
				if v := add(least[j], load); v < next[i]*(1-rounding) {
					next[i], cut[s][i] = v, j
				}
			}
		}
		least = next
	}
	sizes := make([]int, stages)
	for s, i := stages-1, n; s >= 0; s-- {
		sizes[s] = i - cut[s][i]
		i = cut[s][i]
	}
	return least[n], sizes
}

// Ends is what a network has before its blocks and after them, in layers, and how many
// blocks the first and the last stage are to have; 0 is as many as the others.
type Ends struct{ Before, After, First, Last int }

// Blocks cuts blocks into stages of equal number. What comes before them goes with the first
// stage and what comes after with the last. Where the stages do not divide the blocks, those
// at the ends have one block fewer, from the last, the first, the last but one, the second on.
func Blocks(n int, e Ends, stages int) ([]int, error) {
	if err := check(n, stages); err != nil {
		return nil, err
	}
	sizes, free := make([]int, stages), []int{}
	for i := range stages { // from the ends inward
		s := i / 2
		if i%2 == 0 {
			s = stages - 1 - i/2
		}
		if s == 0 && e.First > 0 || s == stages-1 && e.Last > 0 {
			continue
		}
		free = append(free, s)
	}
	sizes[stages-1] = e.Last
	if e.First > 0 {
		sizes[0] = e.First
	}
	rest, each := n-sizes[0], len(free)
	if stages > 1 {
		rest -= sizes[stages-1]
	}
	if rest < each || each == 0 && rest != 0 {
		return nil, fmt.Errorf("first_blocks = %d and last_blocks = %d leave %s of %d for %s", e.First, e.Last, units.Plural(rest, "block"), n, units.Plural(each, "other stage"))
	}
	for k, s := range free {
		sizes[s] = rest / each
		if each-k <= rest%each {
			sizes[s]++
		}
	}
	sizes[0] += e.Before
	sizes[stages-1] += e.After
	return sizes, nil
}

// Explicit checks a list of layers per stage against the number of
// layers.
func Explicit(sizes []int, n, stages int) ([]int, error) {
	if len(sizes) != stages {
		return nil, fmt.Errorf("the partition is of %s; there are %d", units.Plural(len(sizes), "stage"), stages)
	}
	total := 0
	for s, size := range sizes {
		if size < 1 {
			return nil, fmt.Errorf("the partition gives stage %d %s; every stage needs at least one", s, units.Plural(size, "layer"))
		}
		total += size
	}
	if total != n {
		return nil, fmt.Errorf("the partition adds up to %s; the network has %d", units.Plural(total, "layer"), n)
	}
	return sizes, nil
}

func check(layers, stages int) error {
	switch {
	case stages < 1:
		return fmt.Errorf("%d stages: there must be at least 1", stages)
	case stages > layers:
		return fmt.Errorf("%s for a network of %s: every stage needs at least one layer", units.Plural(stages, "stage"), units.Plural(layers, "layer"))
	}
	return nil
}
