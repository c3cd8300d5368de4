package published

import (
	"math"
	"math/rand"
	"slices"
)

// descend searches for a minimum, starting at zero: along every axis with a step that grows if it helps
// and shrinks otherwise, and in random directions.
func descend(n, rounds int, f func([]float64) float64) []float64 {
	x, step := make([]float64, n), slices.Repeat([]float64{0.3}, n)
	best, random := f(x), rand.New(rand.NewSource(1))
	try := func(y []float64) bool {
		v := f(y)
		if v < best {
			best, x = v, y
			return true
		}
		return false
	}
	for range rounds {
		for i := range x {
			moved := false
			for _, sign := range []float64{1, -1} {
				y := slices.Clone(x)
				y[i] += sign * step[i]
				if moved = try(y); moved {
					step[i] *= 1.5 * sign
					break
				}
			}
			if !moved {
				step[i] *= 0.5
			}
		}
		for range n {
			y, width := slices.Clone(x), math.Exp(-2-4*random.Float64())
			for i := range y {
				y[i] += width * random.NormFloat64()
			}
			try(y)
		}
	}
	return x
}
