package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Band is the envelope of levels that change too often to be seen one by one. Each column, a
// grain wide, is filled from its lowest level to its highest. Of the levels that hold for less than
// Least, only peaks count: the others lie between the end of a task and the start of the next.
type Band struct {
	plotter.XYs
	Style draw.LineStyle // of the upper edge; the lower one is finer
	Grain vg.Length
	Least float64
}

// Plot draws the envelope, with lines along its edges.
func (b Band) Plot(c draw.Canvas, p *plot.Plot) {
	high, low := b.edges(c, p)
	area := append([]vg.Point{}, high...)
	for i := range low {
		area = append(area, low[len(low)-1-i])
	}
	const opacity = 0x50
	r, g, blue, _ := b.Style.Color.RGBA()
	c.FillPolygon(color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(blue >> 8), opacity}, area)
	fine := b.Style
	fine.Width /= 2
	c.StrokeLines(fine, low)
	c.StrokeLines(b.Style, high)
}

// edges returns the highest and the lowest level of every column, from left to right. There are no
// points where nothing changes.
func (b Band) edges(c draw.Canvas, p *plot.Plot) (high, low []vg.Point) {
	x, y := p.Transforms(&c)
	column := func(i int) int { return int((x(b.XYs[i].X) - c.Min.X) / b.Grain) }
	held := func(i int) bool { return i+1 == len(b.XYs) || b.XYs[i+1].X-b.XYs[i].X >= b.Least }
	level := y(b.XYs[0].Y)
	for i := 0; i < len(b.XYs); {
		from, most, least := column(i), level, level
		for ; i < len(b.XYs) && column(i) == from; i++ {
			at := y(b.XYs[i].Y)
			most = max(most, at)
			if held(i) {
				least, level = min(least, at), at
			}
		}
		left := min(c.Max.X, c.Min.X+b.Grain*vg.Length(from))
		right := min(c.Max.X, left+b.Grain)
		high, low = step(high, left, most), step(low, left, least)
		if i == len(b.XYs) || column(i) > from+1 {
			high, low = step(high, right, level), step(low, right, level)
		}
	}
	end := vg.Point{X: c.Max.X, Y: level}
	return append(high, end), append(low, end)
}

// step continues an edge at its height until x, and there goes to another height.
func step(edge []vg.Point, x, height vg.Length) []vg.Point {
	if n := len(edge); n > 0 {
		if edge[n-1].Y == height {
			return edge
		}
		edge = append(edge, vg.Point{X: x, Y: edge[n-1].Y})
	}
	return append(edge, vg.Point{X: x, Y: height})
}

// A Strip marks a range of the horizontal axis. It is never too narrow to be seen.
type Strip struct{ From, To float64 }

// Plot fills the strip.
func (s Strip) Plot(c draw.Canvas, p *plot.Plot) {
	const least = 2
	x, _ := p.Transforms(&c)
	left, right := x(s.From), x(s.To)
	if short := least - (right - left); short > 0 {
		left, right = max(c.Min.X, left-short/2), min(c.Max.X, right+short/2)
	}
	Fill(c, RGB(Pale), Rect(left, c.Min.Y, right, c.Max.Y))
}

// Below puts the data of another figure, with its axes, below those of this one.
func (f *Figure) Below(other *Figure) { f.below = other }
