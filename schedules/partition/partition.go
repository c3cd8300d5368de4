// Package partition cuts layers, given by their costs, into contiguous stages.
package partition

import (
	"fmt"
	"math"

	"psim/internal/units"
)

// PartitionEqual cuts n layers into stages of equal size, the first n mod
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

// PartitionBalanced cuts layers of the given costs into contiguous stages so
// that the most expensive stage is as cheap as it can be; among those cuts it
// takes the one whose stages are the most even, by the sum of squares. Every
// stage gets at least one layer. Costs are finite and not negative. It takes
// time n² · stages.
func Balanced(costs []float64, stages int) ([]int, error) {
	n := len(costs)
	if err := check(n, stages); err != nil {
		return nil, err
	}
	sum := make([]float64, n+1)
	for i, c := range costs {
		if !(c >= 0 && c <= math.MaxFloat64) {
			return nil, fmt.Errorf("layer %d costs %v: a cost must be finite and not negative", i, c)
		}
		sum[i+1] = sum[i] + c
	}
	limit := bottleneck(sum, stages)
	// best[s][i] is the least sum of squares of s stages over the first i
	// layers with no stage above the limit; cut is where the last one begins.
	const infinite = 1e300
	best := make([][]float64, stages+1)
	cut := make([][]int, stages+1)
	for s := range best {
		best[s], cut[s] = make([]float64, n+1), make([]int, n+1)
		for i := range best[s] {
			best[s][i] = infinite
		}
	}
	best[0][0] = 0
	for s := 1; s <= stages; s++ {
		for i := s; i <= n; i++ {
			for j := i - 1; j >= s-1; j-- {
				load := sum[i] - sum[j]
				if load > limit*(1+1e-12) {
					break
				}
				if v := best[s-1][j] + load*load; v < best[s][i] {
					best[s][i], cut[s][i] = v, j
				}
			}
		}
	}
	sizes := make([]int, stages)
	for s, i := stages, n; s > 0; s-- {
		sizes[s-1] = i - cut[s][i]
		i = cut[s][i]
	}
	return sizes, nil
}

// bottleneck is the least possible cost of the most expensive of the stages,
// given prefix sums of the layers' costs.
func bottleneck(sum []float64, stages int) float64 {
	n := len(sum) - 1
	least := append([]float64(nil), sum...) // of one stage over the first i layers
	for s := 2; s <= stages; s++ {
		for i := n; i >= s; i-- {
			b := max(least[i-1], sum[i]-sum[i-1])
			for j := i - 2; j >= s-1; j-- {
				load := sum[i] - sum[j]
				if load >= b {
					break
				}
				b = min(b, max(least[j], load))
			}
			least[i] = b
		}
	}
	return least[n]
}

// PartitionExplicit checks a list of layers per stage against the number of
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
