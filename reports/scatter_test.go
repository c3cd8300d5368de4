package reports_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/reports/picture"
)

// scatter is two series over some decades.
func scatter(decades float64) picture.ScatterFigure {
	f := picture.ScatterFigure{Title: "steps: predicted against published", Unit: "ms", Series: []picture.ScatterSeries{{Name: "first"}, {Name: "second"}}}
	for i := range 12 {
		x := math.Pow(10, decades*float64(i)/11)
		f.Series[0].Points = append(f.Series[0].Points, picture.ScatterPoint{Published: x, Predicted: x * (1 + 0.02*float64(i%5))})
		f.Series[1].Points = append(f.Series[1].Points, picture.ScatterPoint{Published: x, Predicted: x * (1 - 0.03*float64(i%4)), Used: i%2 == 0})
	}
	return f
}

func TestScatterErrors(t *testing.T) {
	for _, p := range []picture.ScatterPoint{{}, {Published: 1}, {Published: 1, Predicted: -1}, {Published: 1, Predicted: math.NaN()}, {Published: 1, Predicted: math.Inf(1)}} {
		var b bytes.Buffer
		err := picture.Scatter(&b, picture.SVG, picture.ScatterFigure{Series: []picture.ScatterSeries{{Points: []picture.ScatterPoint{p}}}})
		require.ErrorContains(t, err, "above zero", "%v", p)
		require.Zero(t, b.Len())
	}
	require.Error(t, picture.Scatter(&bytes.Buffer{}, picture.SVG, picture.ScatterFigure{}))
}
