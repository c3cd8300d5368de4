package reports

import (
	"image/color"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules"
)

// No two schedules look alike in a picture of plans, however many there are.
func TestLooksDiffer(t *testing.T) {
	p := paretoPlot{schedules: append(schedules.Names(), "auto", "auto-v")}
	type look struct {
		color.RGBA
		mark
	}
	seen := map[look]string{}
	for _, s := range p.schedules {
		c, m := p.look(s)
		require.Empty(t, seen[look{c, m}], s)
		require.NotEqual(t, noMark, m)
		seen[look{c, m}] = s
	}
}
