// Package partition cuts a list of layers into contiguous stages: equal in number,
// balanced by cost, by blocks, by rank, or as an explicit list says.
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

// Tagged cuts layers by their ranks: a stage is a run of layers on the same rank. It
// returns the number of layers of every stage, and its rank.
func Tagged(ranks []int32) (sizes []int, placement []int32) {
	for i, r := range ranks {
		if i == 0 || r != ranks[i-1] {
			sizes, placement = append(sizes, 0), append(placement, r)
		}
		sizes[len(sizes)-1]++
	}
	return sizes, placement
}

// Balanced cuts layers with given costs so that the most expensive stage is as cheap as
// possible. Among such cuts it takes the most even one, by the sum of squares, and among
// those always the same one, whatever the unit of costs. Every stage gets at least one
// layer. Costs must be finite and not negative. It takes time n² · stages.
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
	_, exponent := math.Frexp(slices.Max(costs)) // scale costs so that squares neither vanish nor overflow
	sum := make([]float64, n+1)
	for i, c := range costs {
		sum[i+1] = sum[i] + math.Ldexp(c, -exponent)
	}
	bottleneck, _ := best(sum, stages, math.Inf(1), func(before, load float64) float64 { return max(before, load) })
	limit := bottleneck * (1 + rounding)
	_, sizes := best(sum, stages, limit, func(before, load float64) float64 { return before + load*load })
	return sizes, nil
}

// rounding bounds the relative difference of equal sums that were added up in different
// orders.
const rounding = 1e-12

// best finds the cut with the smallest total, and returns both. sum holds prefix sums of
// costs, and add returns the total of some stages with total before and one more stage.
// No stage may cost more than the limit.
func best(sum []float64, stages int, limit float64, add func(before, load float64) float64) (float64, []int) {
	n := len(sum) - 1
	// least[i] is the smallest total of the stages so far over the first i layers, and
	// cut[s][i] the layer at which the last of them begins.
	least := append([]float64{0}, slices.Repeat([]float64{math.Inf(1)}, n)...)
	cut := make([][]int, stages)
	for s := range cut {
		next := slices.Repeat([]float64{math.Inf(1)}, n+1)
		cut[s] = make([]int, n+1)
		for i := s + 1; i <= n; i++ {
			for j := i - 1; j >= s; j-- {
				load := sum[i] - sum[j]
				if load > limit || add(0, load) >= next[i] { // longer stages cost no less
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

// Ends describes both ends of a network of blocks: the number of layers before the blocks
// and after them, and how many blocks the first and the last stage get; 0 is as many as
// the other stages.
type Ends struct{ Before, After, First, Last int }

// Blocks cuts n blocks into stages with equal numbers of blocks. Layers before the blocks
// go to the first stage, layers after them to the last. If the number of blocks is not
// divisible, stages get one block fewer from the ends inward: the last, the first, the
// last but one, the second and so on.
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
		return nil, fmt.Errorf("first_blocks = %d and last_blocks = %d leave %s of %d for %s",
			e.First, e.Last, units.Plural(rest, "block"), n, units.Plural(each, "other stage"))
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

// Explicit checks a list of the layers of every stage against the numbers of layers and
// stages.
func Explicit(sizes []int, n, stages int) ([]int, error) {
	if len(sizes) != stages {
		return nil, fmt.Errorf("the partition has %s; there must be %d", units.Plural(len(sizes), "stage"), stages)
	}
	total := 0
	for s, size := range sizes {
		if size < 1 {
			return nil, fmt.Errorf("the partition gives stage %d %s; every stage needs at least one",
				s, units.Plural(size, "layer"))
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
		return fmt.Errorf("%s for a network of %s: every stage needs at least one layer",
			units.Plural(stages, "stage"), units.Plural(layers, "layer"))
	}
	return nil
}
