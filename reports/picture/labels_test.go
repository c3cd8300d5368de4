package picture

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"

	"psim/reports/chart"
)

// A task that is narrower than most is labelled in a smaller size, not left out: in a pipeline of
// unequal stages these are the forwards of the last rank. Tasks that differ by a pixel are
// labelled alike.
func TestNarrowTasksAreLabelled(t *testing.T) {
	wide := chart.Text(10).Width("0")
	l := labelling{size: 10, width: wide}
	require.EqualValues(t, 10, l.sizeIn(wide+1, "0"))
	require.EqualValues(t, 10, l.sizeIn(wide+1-chart.Pixel, "0"))
	require.EqualValues(t, 10, l.sizeIn(100, "0"))
	before := l.size
	for width := wide + 1; width > 1; width -= 0.1 {
		size := l.sizeIn(width, "0")
		require.LessOrEqual(t, size, before)
		if before = size; size > 0 {
			require.LessOrEqual(t, chart.Text(size).Width("0"), width)
		} else {
			require.Less(t, width, chart.Text(5).Width("0")+1)
		}
	}
	require.Zero(t, before, "no room for the smallest")
	require.Zero(t, labelling{}.sizeIn(vg.Length(100), "0"), "a lane without labels")
}
