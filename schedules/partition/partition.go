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
// layer. Costs must be finite and not negative. It takes time (n − stages) · n.
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
	limit := bottleneck(sum, reach(sum, stages, enough(sum, stages))) * (1 + rounding)
	return evenest(sum, reach(sum, stages, limit), limit), nil
}

// rounding bounds the relative difference of equal sums that were added up in different
// orders.
const rounding = 1e-12

// enough returns a load that is enough for the most loaded stage, and close to the least that is. It keeps the
// two exact searches after it short.
func enough(sum []float64, stages int) float64 {
	n := len(sum) - 1
	low, high := sum[n]/float64(stages), sum[n]
	for range 12 {
		middle, begin, used := (low+high)/2, 0, 0
		for i := 1; i <= n && used < stages; i++ {
			if sum[i]-sum[begin] > middle { // layer i − 1 begins a stage
				begin = i - 1
				used++
				if sum[i]-sum[begin] > middle {
					used = stages
				}
			}
		}
		if used < stages {
			high = middle
		} else {
			low = middle
		}
	}
	return high * (1 + 1e-9) // far more than rounding
}

// A span is where a stage can end: at layers first to last, both included.
type span struct{ first, last int }

// reach returns where each stage can end if no stage is loaded more than the limit. Later stages need a layer
// each.
func reach(sum []float64, stages int, limit float64) []span {
	n := len(sum) - 1
	spans := make([]span, stages)
	end := 0
	for s := range spans {
		for begin := end; end < n-(stages-1-s) && sum[end+1]-sum[begin] <= limit; {
			end++
		}
		spans[s].last = end
	}
	begin := n
	for s := stages - 1; s >= 0; s-- {
		spans[s].first = max(begin, s+1)
		for end := spans[s].first; begin > s && sum[end]-sum[begin-1] <= limit; {
			begin--
		}
	}
	return spans
}

// bottleneck returns the smallest load of the most loaded stage. sum holds prefix sums of costs, ends where the
// stages end.
func bottleneck(sum []float64, ends []span) float64 {
	// least[i] is the smallest load of the stages so far over the first i layers.
	least, next := make([]float64, len(sum)), make([]float64, len(sum))
	before := span{}
	for _, end := range ends {
		for i := end.first; i <= end.last; i++ {
			lowest := math.Inf(1)
			for j := min(i-1, before.last); j >= before.first; j-- {
				load := sum[i] - sum[j]
				if load >= lowest { // longer stages cost no less
					break
				}
				if v := max(least[j], load); v < lowest*(1-rounding) {
					lowest = v
				}
			}
			next[i] = lowest
		}
		least, next, before = next, least, end
	}
	return least[len(sum)-1]
}

// evenest finds the cut with the smallest sum of squares of loads that do not exceed the limit.
func evenest(sum []float64, ends []span, limit float64) []int {
	n, width := len(sum)-1, len(sum)-len(ends)
	least, next := make([]float64, n+1), make([]float64, n+1)
	cut := make([]int32, len(ends)*width) // where a stage begins, by stage and end
	before := span{}
	for s, end := range ends {
		for i := end.first; i <= end.last; i++ {
			lowest, begin := math.Inf(1), int32(0)
			for j := min(i-1, before.last); j >= before.first; j-- {
				load := sum[i] - sum[j]
				if load > limit || load*load >= lowest {
					break
				}
				if v := least[j] + load*load; v < lowest*(1-rounding) {
					lowest, begin = v, int32(j)
				}
			}
			next[i], cut[s*width+i-s-1] = lowest, begin
		}
		least, next, before = next, least, end
	}
	sizes := make([]int, len(ends))
	for s, i := len(ends)-1, n; s >= 0; s-- {
		begin := int(cut[s*width+i-s-1])
		sizes[s] = i - begin
		i = begin
	}
	return sizes
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
