package published

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The search comes close to the minimum of a bent valley, whatever its start.
func TestDescend(t *testing.T) {
	x := descend(2, 60, func(x []float64) float64 {
		a, b := x[0]-0.7, x[1]+x[0]*x[0]
		return a*a + 10*b*b
	})
	require.InDelta(t, 0.7, x[0], 0.02)
	require.InDelta(t, -0.49, x[1], 0.03)
}

// The machines that are saved are of the form that a fit writes, and no constant of
// them can be changed by a tenth to come closer to the rows.
func TestFitted(t *testing.T) {
	f := fits()[1]
	best := f.error(korthikantiMachine)
	for _, x := range [][]float64{{0, 0}, {0.2, 0}, {0, -1}} {
		require.Greater(t, f.error(f.machine(x)), best)
	}
	require.Contains(t, korthikantiMachine, f.head)
	require.Contains(t, vtrainMachine, fits()[0].head)
}
