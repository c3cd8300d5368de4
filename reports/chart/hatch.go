package chart

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Hatch is a paint of lines over a colour. It distinguishes areas for people who cannot
// distinguish the colours.
type Hatch int

// The hatches.
const (
	Plain Hatch = iota
	Rising
	Falling
	Level
	Crossed
)

// A Paint is a colour and the hatch that is drawn over it.
type Paint struct {
	Color color.RGBA
	Hatch Hatch
}

// Series returns the paint of the i-th of several areas. Paints differ in colour and in
// hatch.
func Series(i int) Paint {
	return Paint{Color(i), []Hatch{Plain, Rising, Falling, Level, Crossed}[i%5]}
}

// Rectangle fills a rectangle with the paint.
func (p Paint) Rectangle(c draw.Canvas, r vg.Rectangle) {
	Fill(c, p.Color, r)
	ink := color.RGBA{R: p.Color.R / 2, G: p.Color.G / 2, B: p.Color.B / 2, A: 0xff}
	if InkOn(p.Color) == RGB(0xffffff) { // lines on dark colours are light
		ink = color.RGBA{R: 128 + p.Color.R/2, G: 128 + p.Color.G/2, B: 128 + p.Color.B/2, A: 0xff}
	}
	line := Stroke(ink, 0.6)
	for _, slope := range p.Hatch.slopes() {
		for _, ends := range hatchLines(r, slope) {
			c.StrokeLine2(line, ends[0].X, ends[0].Y, ends[1].X, ends[1].Y)
		}
	}
}

// Thumbnail draws the paint for a legend.
func (p Paint) Thumbnail(c *draw.Canvas) {
	p.Rectangle(*c, Rect(Snap(c.Min.X), Snap(c.Min.Y), Snap(c.Max.X), Snap(c.Max.Y)))
}

// slopes lists the slopes of a hatch's lines.
func (h Hatch) slopes() []vg.Length {
	return map[Hatch][]vg.Length{Rising: {1}, Falling: {-1}, Level: {0}, Crossed: {1, -1}}[h]
}

// hatchLines lists the lines of a slope within a rectangle. The lines go through the same
// points for all rectangles, so that the hatches of adjacent areas match.
func hatchLines(r vg.Rectangle, slope vg.Length) (lines [][2]vg.Point) {
	const distance = 4 // vertical, between lines
	rise := slope * (r.Max.X - r.Min.X)
	first := vg.Length(int((r.Min.Y-max(0, rise)-slope*r.Min.X)/distance)-1) * distance
	for at := first; at+slope*r.Min.X < r.Max.Y+max(0, -rise); at += distance {
		x := []vg.Length{r.Min.X, r.Max.X}
		if slope != 0 { // keep the two crossings at which the line enters and leaves the rectangle
			x = []vg.Length{r.Min.X, r.Max.X, (r.Min.Y - at) / slope, (r.Max.Y - at) / slope}
			slices.Sort(x)
			x = x[1:3]
		}
		a, b := vg.Point{X: x[0], Y: at + slope*x[0]}, vg.Point{X: x[1], Y: at + slope*x[1]}
		inside := func(p vg.Point) bool {
			const rounding = 1e-6
			return p.X >= r.Min.X-rounding && p.X <= r.Max.X+rounding &&
				p.Y >= r.Min.Y-rounding && p.Y <= r.Max.Y+rounding
		}
		if inside(a) && inside(b) {
			lines = append(lines, [2]vg.Point{a, b})
		}
	}
	return lines
}
