package solve_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"psim/internal/solve"
)

// The library of linear algebra is the reference.
func TestLeastSquares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "columns")
		m := rapid.IntRange(n, 12).Draw(t, "rows")
		numbers := func(label string, count int) []float64 {
			return rapid.SliceOfN(rapid.Float64Range(-1e3, 1e3), count, count).Draw(t, label)
		}
		all, right := numbers("numbers", n*m), numbers("right", m)
		rows := make([][]float64, m)
		for i := range rows {
			rows[i] = all[i*n : i*n+n]
		}
		a := mat.NewDense(m, n, all)
		if condition := mat.Cond(a, 2); condition > 1e6 {
			t.Skip("what is nearly dependent differs by its rounding")
		}
		var want mat.VecDense
		require.NoError(t, want.SolveVec(a, mat.NewVecDense(m, right)))
		got, ok := solve.LeastSquares(rows, right)
		require.True(t, ok)
		largest := mat.Norm(&want, math.Inf(1))
		for j := range n {
			require.InDelta(t, want.AtVec(j), got[j], 1e-8*largest)
		}
	})
}

func TestDependent(t *testing.T) {
	for _, rows := range [][][]float64{nil, {{0}}, {{1, 2}}, {{1, 2}, {2, 4}, {3, 6}}, {{1, 0}, {2, 0}}, {{math.NaN()}}} {
		_, ok := solve.LeastSquares(rows, make([]float64, len(rows)))
		require.False(t, ok, "%v", rows)
	}
}

func ExampleLeastSquares() {
	// A latency and a time for every byte, from three messages.
	x, ok := solve.LeastSquares([][]float64{{1, 0}, {1, 10}, {1, 20}}, []float64{5, 7, 9})
	fmt.Printf("%.2f %v\n", x, ok)
	// Output: [5.00 0.20] true
}
