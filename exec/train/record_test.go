package train

import (
	"math"
	"testing"

	"psim/exec/kernels"

	"github.com/stretchr/testify/require"
)

// With Adam, weights with next to no gradient are left out, counted and named; with SGD none are.
func TestDifferenceLeavesOut(t *testing.T) {
	record := func(weights ...float32) *Record {
		return &Record{
			Losses:     []float64{1},
			Parameters: []map[string][]float32{{"k.bias": weights[:2], "w": weights[2:]}},
			Gradients:  []map[string][]float32{{"k.bias": {1e-9, 1}, "w": {-2, 0.001}}},
		}
	}
	unsplit := record(0, 0, 0, 0)
	for _, c := range []struct {
		optimizer string
		weights   []float32
		compared  float64
		left      Unjudged
	}{
		{"sgd", []float32{4, 1, 2, 3}, 4, Unjudged{}},
		{"adamw", []float32{4, 1, 2, 3}, 2, Unjudged{2, 4, []string{"k.bias", "w"}}},
		{"adam", []float32{float32(math.NaN()), 0, 0, 0}, 0, Unjudged{2, math.Inf(1), []string{"k.bias", "w"}}},
	} {
		d, err := record(c.weights...).Difference(unsplit, kernels.DefaultOptimizer(c.optimizer))
		require.NoError(t, err)
		require.Equal(t, c.compared, d.Weights, c.optimizer)
		require.Equal(t, c.left, d.LeftOut, c.optimizer)
	}

	short := record(0, 0, 0, 0)
	short.Parameters[0]["w"] = []float32{1}
	_, err := short.Difference(unsplit, kernels.DefaultOptimizer("adam"))
	require.EqualError(t, err, "w: 1 numbers, and 2 in the unsplit run")
}
