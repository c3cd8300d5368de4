package calibrate

import "math"

// solve finds x with the least squares of a·x − b, by Householder's reflections. It overwrites a, which has a
// slice for every column, and b. It fails if the columns are linearly dependent, as far as rounding shows.
func solve(a [][]float64, b []float64) (x []float64, ok bool) {
	n := len(a)
	diagonal := make([]float64, n)
	for j, column := range a {
		whole := norm(column)
		v := column[j:]
		length := norm(v)
		if !(length > 1e-14*whole) {
			return nil, false
		}
		diagonal[j] = -math.Copysign(length, v[0])
		v[0] -= diagonal[j]
		for _, other := range a[j+1:] {
			mirror(other[j:], v)
		}
		mirror(b[j:], v)
	}
	x = make([]float64, n)
	for j := n - 1; j >= 0; j-- {
		x[j] = b[j]
		for k := j + 1; k < n; k++ {
			x[j] -= a[k][j] * x[k]
		}
		x[j] /= diagonal[j]
	}
	return x, true
}

// mirror reflects u at the plane that is normal to v.
func mirror(u, v []float64) {
	var uv, vv float64
	for i := range v {
		uv += u[i] * v[i]
		vv += v[i] * v[i]
	}
	for i := range v {
		u[i] -= 2 * uv / vv * v[i]
	}
}

func norm(v []float64) float64 {
	var squares float64
	for _, x := range v {
		squares += x * x
	}
	return math.Sqrt(squares)
}
