package published

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The share of rates that DeepEP reaches is the one by which the rows that it was fitted to
// are right on average, to a percent.
func TestDeepEPIsTheFit(t *testing.T) {
	rows, err := deepEP().Rows()
	require.NoError(t, err)
	sum, n := 0., 0.
	for _, r := range rows {
		if r.Used {
			sum, n = sum+r.Published/r.Predicted, n+1
		}
	}
	require.InDelta(t, 1, sum/n, 0.01)
}
