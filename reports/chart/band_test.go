package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
	"pgregory.net/rapid"
)

// The edges of a band have every level between them, touch the peak, and have no more points than
// there is room for.
func TestBand(t *testing.T) {
	const size = 20
	p := plot.New()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, size, 0, size
	rapid.Check(t, func(t *rapid.T) {
		b := Band{XYs: plotter.XYs{{Y: 5}}, Grain: 2, Least: 0.01}
		peak := 5.0
		for x, n := 0.0, rapid.IntRange(0, 200).Draw(t, "n"); n > 0 && x < size; n-- {
			y := rapid.Float64Range(0, size).Draw(t, "y")
			b.XYs = append(b.XYs, plotter.XY{X: x, Y: y})
			peak = max(peak, y)
			x += rapid.SampledFrom([]float64{0, 0.1, 0.1, 7}).Draw(t, "hold")
		}
		c := draw.NewCanvas(&recorder.Canvas{}, size, size)
		high, low := b.edges(c, p)
		require.LessOrEqual(t, len(high), 3*size/2+3)
		require.LessOrEqual(t, len(low), 3*size/2+3)
		top := vg.Length(0)
		for _, at := range high {
			top = max(top, at.Y)
		}
		require.InDelta(t, peak, float64(top), 1e-9)
		for i, l := range b.XYs {
			held := i+1 == len(b.XYs) || b.XYs[i+1].X-l.X >= b.Least
			require.LessOrEqual(t, l.Y, float64(height(high, l.X, true))+1e-9)
			if held {
				require.GreaterOrEqual(t, l.Y, float64(height(low, l.X, false))-1e-9)
			}
		}
	})
}

// height returns where an edge is at x, and where it jumps there, the highest or the lowest.
func height(edge []vg.Point, x float64, highest bool) vg.Length {
	var found []vg.Length
	for i := 1; i < len(edge); i++ {
		if edge[i-1].X <= vg.Length(x) && vg.Length(x) <= edge[i].X {
			found = append(found, edge[i-1].Y, edge[i].Y)
		}
	}
	best := found[0]
	for _, y := range found {
		if (y > best) == highest {
			best = y
		}
	}
	return best
}

// A strip is wide enough to be seen.
func TestStrip(t *testing.T) {
	p := plot.New()
	p.X.Min, p.X.Max = 0, 1e6
	var c recorder.Canvas
	Strip{From: 5e5, To: 5e5 + 1}.Plot(draw.NewCanvas(&c, 100, 10), p)
	for _, a := range c.Actions {
		if fill, ok := a.(*recorder.Fill); ok {
			require.InDelta(t, 49, float64(fill.Path[0].Pos.X), 1e-3)
			require.InDelta(t, 51, float64(fill.Path[2].Pos.X), 1e-3)
			return
		}
	}
	t.Fatal("nothing is filled")
}
