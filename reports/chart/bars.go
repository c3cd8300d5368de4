package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Bar is a bar of the given width, centred at X on the horizontal axis, from one height
// to another. A whisker goes from Low to High, if High is not 0.
type Bar struct {
	X, Width, From, To, Low, High float64
	Paint
	Text string
}

// Bars draws bars.
type Bars []Bar

// Plot draws the bars.
func (b Bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, bar := range b {
		low, high := y(bar.From), y(bar.To)
		left, right := Snap(x(bar.X-bar.Width/2)), Snap(x(bar.X+bar.Width/2))
		bar.Rectangle(c, Rect(left, Snap(min(low, high)), right, Snap(max(low, high))))
	}
	for _, bar := range b {
		if bar.High != 0 {
			whisker(c, x(bar.X), y(bar.Low), y(bar.High))
		}
	}
}

// BarTexts writes the texts of bars: in their upper ends, or above bars that are too short
// or narrow.
type BarTexts []Bar

// Plot writes the texts.
func (b BarTexts) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, bar := range b {
		style := Text(7.5)
		style.XAlign = text.XCenter
		half, room := style.Width(bar.Text)/2+1, x(bar.Width)-x(0)
		if bar.Text == "" || half > room {
			continue
		}
		low, high := bar.To, bar.To
		if bar.High != 0 {
			low, high = min(bar.Low, bar.To), max(bar.High, bar.To)
		}
		at, behind := vg.Point{X: x(bar.X), Y: y(low) - 7}, color.Color(bar.Color)
		if style.Color = InkOn(bar.Color); at.Y-5 < y(bar.From) || 2*half > room {
			at.Y, behind, style.Color = y(max(bar.From, high))+6, color.White, RGB(Ink)
		}
		Fill(c, behind, Rect(at.X-half, at.Y-4, at.X+half, at.Y+4))
		c.FillText(style, at, bar.Text)
	}
}

// whisker draws how far a value may be off.
func whisker(c draw.Canvas, x, low, high vg.Length) {
	const cap = 3
	line := Stroke(RGB(Ink), 0.9)
	c.StrokeLine2(line, x, low, x, high)
	for _, y := range []vg.Length{low, high} {
		c.StrokeLine2(line, x-cap, y, x+cap, y)
	}
}
