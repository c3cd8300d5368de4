package golden

import (
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Drawing compares an SVG with testdata/name. Elements and texts must be equal. Numbers must be
// equal except for differences in rounding between processors: edges are rounded to a quarter of
// a point, so one in a hundred may be that far off.
func Drawing(t testing.TB, name string, got []byte) {
	t.Helper()
	want := Read(t, name, got)
	number := regexp.MustCompile(`-?\d+(\.\d+)?(e-?\d+)?`)
	require.Equal(t, number.ReplaceAllString(string(want), "#"), number.ReplaceAllString(string(got), "#"), name)
	wanted, gotten := number.FindAllString(string(want), -1), number.FindAllString(string(got), -1)
	moved := 0
	for i := range wanted {
		x, _ := strconv.ParseFloat(wanted[i], 64)
		y, _ := strconv.ParseFloat(gotten[i], 64)
		require.LessOrEqual(t, math.Abs(x-y), 0.51, "%s: %s became %s", name, wanted[i], gotten[i])
		if math.Abs(x-y) > 0.011 {
			moved++
		}
	}
	require.LessOrEqual(t, moved, len(wanted)/100, "%s differs from what is drawn; rewrite it with: go test -update", name)
}
