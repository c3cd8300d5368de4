package chart

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Pixel is the size of a pixel of a PNG. Edges of rectangles are rounded to it in
// all formats.
const Pixel = vg.Inch / dotsPerInch

// Snap rounds a position to whole pixels.
func Snap(x vg.Length) vg.Length { return Pixel * vg.Length(int(x/Pixel+0.5)) }

// Fill fills the rectangle between two corners.
func Fill(c draw.Canvas, fill color.Color, x0, y0, x1, y1 vg.Length) {
	c.FillPolygon(fill, []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
}

// Line joins points.
func Line(style draw.LineStyle, points ...plotter.XY) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: style}
}

// Steps are levels that hold from each X to the next, the first from the left
// edge. Of what happens within a grain they show the highest level and the last,
// so that a million changes are no more to draw than fit in the picture.
type Steps struct {
	plotter.XYs
	draw.LineStyle
	Grain vg.Length
}

// Plot draws the levels, the last as far as the right edge.
func (s Steps) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	at := func(i int) vg.Length {
		return min(c.Max.X, c.Min.X+s.Grain*vg.Length(int((x(s.XYs[i].X)-c.Min.X)/s.Grain+0.5)))
	}
	level := y(s.XYs[0].Y)
	line := []vg.Point{{X: c.Min.X, Y: level}}
	for i := 0; i < len(s.XYs); {
		from, before, high := at(i), level, level
		for ; i < len(s.XYs) && at(i) == from; i++ {
			level = y(s.XYs[i].Y)
			high = max(high, level)
		}
		if high == before && level == before {
			continue
		}
		line = append(line, vg.Point{X: from, Y: before})
		if high != before && high != level {
			line = append(line, vg.Point{X: from, Y: high})
		}
		line = append(line, vg.Point{X: from, Y: level})
	}
	c.StrokeLines(s.LineStyle, append(line, vg.Point{X: c.Max.X, Y: level}))
}

// A Mark is the shape of a point. Its white rim tells it from those beneath.
type Mark struct {
	Shape  draw.GlyphDrawer
	Hollow bool
}

// DrawGlyph draws the mark of a point.
func (m Mark) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	part := func(fill color.Color, radius vg.Length) {
		c.SetColor(fill)
		m.Shape.DrawGlyph(c, draw.GlyphStyle{Color: fill, Radius: radius}, at)
	}
	part(color.White, style.Radius+0.7)
	part(style.Color, style.Radius)
	if m.Hollow {
		part(color.White, style.Radius-0.9)
	}
}

// Look is how the i-th of many series is marked: by colour and, as there are
// more series than colours, by shape.
func Look(i int, radius vg.Length) draw.GlyphStyle {
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}}
	return draw.GlyphStyle{Color: Color(i), Radius: radius, Shape: Mark{Shape: shapes[i/series%len(shapes)]}}
}

// Lines tells how the i-th of several lines looks, and the marks on it: by colour, by
// dashes and by shape.
func Lines(i int) (draw.LineStyle, draw.GlyphStyle) {
	line, look := Stroke(Color(i), 1.2), Look(i, 3.2)
	line.Dashes = [][]vg.Length{nil, {5, 2}, {1.5, 1.5}, {6, 2, 1.5, 2}}[i%4]
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CircleGlyph{}}
	look.Shape = Mark{Shape: shapes[i%4], Hollow: i%4 == 3}
	return line, look
}

// Labels write a text at a corner of each point, the lower left if it can: where it
// stays in the picture, is not closer to another point than that may be, and covers no text
// of an earlier one. Where there is no such corner it is left out.
type Labels struct {
	plotter.XYs
	Texts  []string
	Others plotter.XYs // points without a text, which none covers
	Walls  []float64   // X of vertical lines that no label crosses
}

// Plot draws the labels.
func (l Labels) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := Text(9)
	style.XAlign = text.XRight
	const around, point = 8, 4 // where a text would be taken for a point's own, or covers it
	var taken []vg.Rectangle
	take := func(points plotter.XYs, room vg.Length) {
		for _, p := range points {
			at := vg.Point{X: x(p.X), Y: y(p.Y)}
			taken = append(taken, vg.Rectangle{Min: vg.Point{X: at.X - room, Y: at.Y - room}, Max: vg.Point{X: at.X + room, Y: at.Y + room}})
		}
	}
	take(l.XYs, around)
	take(l.Others, point)
	for _, wall := range l.Walls {
		taken = append(taken, vg.Rectangle{Min: vg.Point{X: x(wall) - 1, Y: c.Min.Y}, Max: vg.Point{X: x(wall) + 1, Y: c.Max.Y}})
	}
	for i, point := range l.XYs {
		w := style.Width(l.Texts[i])
		for _, corner := range []vg.Point{{X: -5, Y: -9}, {X: 5 + w, Y: -9}, {X: -5, Y: 9}, {X: 5 + w, Y: 9}} {
			at := vg.Point{X: x(point.X) + corner.X, Y: y(point.Y) + corner.Y}
			box := vg.Rectangle{Min: vg.Point{X: at.X - w - 2, Y: at.Y - 6}, Max: vg.Point{X: at.X, Y: at.Y + 4}}
			overlaps := func(o vg.Rectangle) bool {
				return box.Min.X < o.Max.X && o.Min.X < box.Max.X && box.Min.Y < o.Max.Y && o.Min.Y < box.Max.Y
			}
			inside := box.Min.X >= c.Min.X && box.Max.X <= c.Max.X && box.Min.Y >= c.Min.Y && box.Max.Y <= c.Max.Y
			if inside && !slices.ContainsFunc(taken[:i], overlaps) && !slices.ContainsFunc(taken[i+1:], overlaps) {
				c.FillText(style, at, l.Texts[i])
				taken = append(taken, box)
				break
			}
		}
	}
}
