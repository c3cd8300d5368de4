package units_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/units"
)

// The list stays in its order.
func TestMedian(t *testing.T) {
	list := []float64{5, 1, 3}
	require.Equal(t, 3.0, units.Median(list))
	require.Equal(t, []float64{5, 1, 3}, list)
	require.Equal(t, 2.5*1e9, float64(units.Median([]time.Duration{4 * time.Second, time.Second})))
	require.Zero(t, units.Median[float64](nil))
}

func TestMean(t *testing.T) {
	require.Equal(t, 2.5, units.Mean([]float64{4, 1}))
}
