package calibrate

import (
	"math"

	"psim/internal/solve"
)

// leastSquares finds numbers x, none negative, for which rows·x is nearest to times, where
// the difference of a row is divided by its scale. There are few columns, so it tries every
// set of columns whose x is not zero.
func leastSquares(rows [][]float64, times, scales []float64) []float64 {
	columns := 0
	if len(rows) > 0 {
		columns = len(rows[0])
	}
	best, least := make([]float64, columns), math.Inf(1)
	for set := 1; set < 1<<columns; set++ {
		x, squares, ok := solveSet(rows, times, scales, set)
		if ok && squares < least {
			best, least = x, squares
		}
	}
	return best
}

// solveSet solves for the columns of a bit set, with x = 0 in the others. It fails if the
// columns are linearly dependent, or a number would be negative.
func solveSet(rows [][]float64, times, scales []float64, set int) (x []float64, squares float64, ok bool) {
	columns := len(rows[0])
	var used []int
	for c := range columns {
		if set>>c&1 == 1 {
			used = append(used, c)
		}
	}
	if len(used) > len(rows) {
		return nil, 0, false
	}
	a, b := make([][]float64, len(rows)), make([]float64, len(rows))
	for i := range rows {
		a[i], b[i] = make([]float64, len(used)), times[i]/scales[i]
	}
	unit := make([]float64, len(used))
	for j, c := range used {
		for i, row := range rows {
			unit[j] = max(unit[j], row[c]/scales[i])
		}
		if unit[j] == 0 {
			return nil, 0, false
		}
		for i, row := range rows {
			a[i][j] = row[c] / scales[i] / unit[j]
		}
	}
	solution, ok := solve.LeastSquares(a, b)
	if !ok {
		return nil, 0, false
	}
	x = make([]float64, columns)
	for j, c := range used {
		if x[c] = solution[j] / unit[j]; !(x[c] >= 0) || math.IsInf(x[c], 0) {
			return nil, 0, false
		}
	}
	for i := range a {
		off := b[i]
		for j := range solution {
			off -= a[i][j] * solution[j]
		}
		squares += off * off
	}
	return x, squares, true
}
