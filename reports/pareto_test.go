package reports_test

import (
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/reports/picture"
	"psim/results"
	"psim/results/rankings"
)

// The longest times and the most memory that a file can hold are drawn.
func TestParetoExtremes(t *testing.T) {
	r, err := results.ReadResult(strings.NewReader(`{"kind": "predicted", "step_time_s": 9.2e9, "ranks": [{"peak_memory_bytes": 9223372036854775807}]}`))
	require.NoError(t, err)
	list := []rankings.Candidate{{Result: r}}
	require.NoError(t, picture.Pareto(io.Discard, picture.SVG, picture.ParetoFigure{Plans: list, Capacity: math.MaxInt64}))
	_, err = results.ReadResult(strings.NewReader(`{"kind": "predicted", "step_time_s": 1e10, "ranks": [{}]}`))
	require.EqualError(t, err, "step_time_s or makespan_s is negative or above 9.2e+09")
}
