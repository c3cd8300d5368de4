package reports_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/reports"
)

// scatter is two series over some decades.
func scatter(decades float64) reports.ScatterFigure {
	f := reports.ScatterFigure{Title: "steps: predicted against published", Unit: "ms", Series: []reports.ScatterSeries{{Name: "first"}, {Name: "second"}}}
	for i := range 12 {
		x := math.Pow(10, decades*float64(i)/11)
		f.Series[0].Points = append(f.Series[0].Points, reports.ScatterPoint{Published: x, Predicted: x * (1 + 0.02*float64(i%5))})
		f.Series[1].Points = append(f.Series[1].Points, reports.ScatterPoint{Published: x, Predicted: x * (1 - 0.03*float64(i%4)), Used: i%2 == 0})
	}
	return f
}

func TestScatterErrors(t *testing.T) {
	for _, p := range []reports.ScatterPoint{{}, {Published: 1}, {Published: 1, Predicted: -1}, {Published: 1, Predicted: math.NaN()}, {Published: 1, Predicted: math.Inf(1)}} {
		var b bytes.Buffer
		err := reports.Scatter(&b, reports.SVG, reports.ScatterFigure{Series: []reports.ScatterSeries{{Points: []reports.ScatterPoint{p}}}})
		require.ErrorContains(t, err, "above zero", "%v", p)
		require.Zero(t, b.Len())
	}
	require.Error(t, reports.Scatter(&bytes.Buffer{}, reports.SVG, reports.ScatterFigure{}))
}
