package published

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpearman(t *testing.T) {
	up := []float64{1, 2, 3, 4, 5}
	require.InDelta(t, 1, spearman(up, []float64{2, 3, 5, 8, 99}), 1e-12)
	require.InDelta(t, -1, spearman(up, []float64{9, 7, 5, 3, 1}), 1e-12)
	require.Zero(t, spearman(up, []float64{4, 4, 4, 4, 4}))
	// Ranks 0, 1.5, 1.5, 3 against 0, 2, 1, 3.
	require.InDelta(t, 4.5/4.743416, spearman([]float64{1, 2, 2, 3}, []float64{1, 3, 2, 4}), 1e-6)
}

func TestOrders(t *testing.T) {
	var rows []DataPoint
	for i, predicted := range []float64{10, 20, 30, 50, 40} {
		rows = append(rows, DataPoint{
			Training: "t", Published: float64(i + 1), Predicted: predicted, Used: i == 0,
			Alternatives: []Alternative{{"another network", float64(-i)}},
		}, DataPoint{Training: "few", Published: 1, Predicted: 1}, DataPoint{Published: 1, Predicted: 2})
	}
	list := orders(rows)
	require.Len(t, list, 2)
	require.Equal(t, "Order of 5 plans for t (1 of them used for the fit): rank correlation 0.90, with another network −1.00.", list[0].text())
}
