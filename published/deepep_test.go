package published

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The share of rates that DeepEP reaches is the one by which the rows that it was fitted to
// are right on average, to a percent.
func TestFittedShareOfDeepEP(t *testing.T) {
	sum, n := 0., 0.
	for _, r := range replayedTable(t, "deepep").Replayed {
		if r.Used {
			sum, n = sum+r.Published/r.Predicted, n+1
		}
	}
	require.InDelta(t, 1, sum/n, 0.01)
}
