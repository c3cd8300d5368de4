package calibrate

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

// The solver finds what gonum's finds.
func TestSolveIsGonum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 5).Draw(t, "columns")
		rows := columns + rapid.IntRange(0, 20).Draw(t, "more")
		a, b := make([][]float64, columns), make([]float64, rows)
		dense := mat.NewDense(rows, columns, nil)
		for j := range a {
			a[j] = make([]float64, rows)
			for i := range a[j] {
				a[j][i] = float64(rapid.IntRange(0, 1000).Draw(t, "a")) / 1000
				dense.Set(i, j, a[j][i])
			}
		}
		for i := range b {
			b[i] = rapid.Float64Range(0, 10).Draw(t, "b")
		}
		var want mat.VecDense
		err := want.SolveVec(dense, mat.NewVecDense(rows, append([]float64{}, b...)))
		condition := mat.Cond(dense, 2)
		x, ok := solve(a, b)
		if err != nil || condition > 1e8 {
			return
		}
		require.True(t, ok)
		for j := range x {
			require.InDelta(t, want.AtVec(j), x[j], 1e-14*condition*condition*(1+mat.Norm(&want, 2)))
		}
	})
}

// Columns that depend on each other have no solution of their own.
func TestSolveDependent(t *testing.T) {
	_, ok := solve([][]float64{{1, 2, 3}, {2, 4, 6}}, []float64{1, 2, 4})
	require.False(t, ok)
}
