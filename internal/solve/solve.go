// Package solve solves small dense systems of linear equations. A library of linear algebra takes a tenth of
// the time in which all of psim is built, for the few columns of a fit.
package solve

import (
	"math"
	"slices"
)

// dependent is the share of the largest pivot below which a column is taken to depend on those before it.
const dependent = 1e-14

// LeastSquares returns the x for which rows·x is nearest to right, by Householder reflections. Every row has as many
// numbers as x. It reports false if there are fewer rows than columns, or if columns depend on each other.
func LeastSquares(rows [][]float64, right []float64) (x []float64, ok bool) {
	if len(rows) == 0 || len(rows) < len(rows[0]) {
		return nil, false
	}
	n := len(rows[0])
	a, b := make([][]float64, len(rows)), slices.Clone(right)
	for i := range rows {
		a[i] = slices.Clone(rows[i])
	}
	largest := 0.0
	for j := range n {
		length := 0.0
		for i := j; i < len(a); i++ {
			length = math.Hypot(length, a[i][j])
		}
		if largest = max(largest, length); !(length > dependent*largest) {
			return nil, false
		}
		reflect(a, b, j, length)
	}
	x = make([]float64, n)
	for j := n - 1; j >= 0; j-- {
		sum := b[j]
		for k := j + 1; k < n; k++ {
			sum -= a[j][k] * x[k]
		}
		x[j] = sum / a[j][j]
	}
	return x, true
}

// reflect makes zeros below row j of column j, whose length from there on is given.
func reflect(a [][]float64, b []float64, j int, length float64) {
	v := make([]float64, len(a)) // what the reflection turns around
	for i := j; i < len(a); i++ {
		v[i] = a[i][j] / length
	}
	v[j] += math.Copysign(1, v[j])
	change := func(get func(i int) *float64) {
		dot := 0.0
		for i := j; i < len(a); i++ {
			dot += v[i] * *get(i)
		}
		for i := j; i < len(a); i++ {
			*get(i) -= dot / math.Abs(v[j]) * v[i]
		}
	}
	for k := j; k < len(a[0]); k++ {
		change(func(i int) *float64 { return &a[i][k] })
	}
	change(func(i int) *float64 { return &b[i] })
}
