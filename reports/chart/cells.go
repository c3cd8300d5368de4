package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Cell is a square of a heat map, in a column and a row. The colour of its look is the
// Heat of its value.
type Cell struct {
	Column, Row int
	Look        Paint
	Text        string
}

// Cells draws the squares of a heat map, over the axes of Columns and Rows.
type Cells []Cell

// Plot draws the squares, with their texts if there is room for all of them.
func (l Cells) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	room := x(1) - x(0) - 3
	size := min(9, 0.8*(y(1)-y(0)))
	for _, cell := range l {
		for size > 0 && Text(size).Width(cell.Text) > room {
			size -= 0.5
		}
	}
	for _, cell := range l {
		at := vg.Point{X: x(float64(cell.Column)), Y: y(float64(cell.Row))}
		half := vg.Point{X: (x(1) - x(0)) / 2, Y: (y(1) - y(0)) / 2}
		right, top := Snap(at.X+half.X)-2*Pixel, Snap(at.Y+half.Y)-2*Pixel
		look := cell.Look
		look.Rectangle(c, Rect(Snap(at.X-half.X), Snap(at.Y-half.Y), right, top))
		if size < 5 {
			continue
		}
		style := Text(size)
		style.XAlign, style.Color = text.XCenter, InkOn(look.Color)
		if look.Hatch != Plain && cell.Text != "" { // no line runs through the text
			w := style.Width(cell.Text)/2 + 1
			Fill(c, look.Color, Rect(at.X-w, at.Y-size/2, at.X+w, at.Y+size/2))
		}
		c.FillText(style, at, cell.Text)
	}
}

// Heat returns the colour of a level from 0, pale, to 1, dark. It gets darker throughout,
// so that a print without colours shows the same.
func Heat(level float64) color.RGBA {
	stops := []color.RGBA{RGB(0xf7f4e0), RGB(0x9fd3c7), RGB(0x3d8fb8), RGB(0x14305f)}
	at := min(max(level, 0), 1) * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	mix := func(a, b uint8) uint8 { return uint8(float64(a) + (at-float64(i))*(float64(b)-float64(a)) + 0.5) }
	a, b := stops[i], stops[i+1]
	return color.RGBA{R: mix(a.R, b.R), G: mix(a.G, b.G), B: mix(a.B, b.B), A: 0xff}
}
