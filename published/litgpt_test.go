package published

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The mean length of litgpt's samples, which is not published, is the multiple of 10 with which the rows that it is
// fitted to have the least sum of absolute errors, of logarithms.
func TestLitgptLengths(t *testing.T) {
	best, least := 0, math.Inf(1)
	for mean := 100; mean <= 400; mean += 10 {
		sum, n := 0.0, 0
		for _, r := range rowsOf(t, table("runs-litgpt")) {
			if used, err := r.used(); err != nil || !used {
				require.NoError(t, err)
				continue
			}
			r.over = []string{fmt.Sprintf("data.lengths={mean = %d.0, max = 512}", mean)}
			var made DataPoint
			require.NoError(t, r.numbers(&made))
			sum, n = sum+math.Abs(math.Log(made.Predicted/made.Published)), n+1
		}
		require.Equal(t, 3, n)
		if sum < least {
			best, least = mean, sum
		}
	}
	require.True(t, strings.Contains(read("tables/runs-litgpt.toml"), fmt.Sprintf("lengths = {mean = %d.0, max = 512}", best)), best)
}
