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

// Rect returns the rectangle between two corners.
func Rect(x0, y0, x1, y1 vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: vg.Point{X: x0, Y: y0}, Max: vg.Point{X: x1, Y: y1}}
}

// Fill fills a rectangle.
func Fill(c draw.Canvas, fill color.Color, r vg.Rectangle) {
	c.FillPolygon(fill, []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}})
}

// Line connects points.
func Line(style draw.LineStyle, points ...plotter.XY) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: style}
}

// Steps are levels that hold from each X to the next, the first from the left edge. Of the
// levels within a grain only the highest and the last are drawn, so that a million changes
// take no longer to draw than the picture has room for.
type Steps struct {
	plotter.XYs
	draw.LineStyle
	Grain vg.Length
}

// Plot draws the levels, the last one up to the right edge.
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

// A Mark is the shape of a point. Its white rim separates it from the points beneath it.
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

// Look returns the mark of the points of the i-th of many series. Marks differ in colour
// and, because there may be more series than colours, in shape.
func Look(i int, radius vg.Length) draw.GlyphStyle {
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}}
	return draw.GlyphStyle{Color: Color(i), Radius: radius, Shape: Mark{Shape: shapes[i/series%len(shapes)]}}
}

// Lines returns the style of the i-th of several lines and of the marks on it. Lines differ
// in colour, dashes and the shape of their marks.
func Lines(i int) (draw.LineStyle, draw.GlyphStyle) { return LineOf(i, i) }

// LineStyles is the number of different dashes and marks of lines.
const LineStyles = 4

// LineOf returns the style of a line of a colour, with its dashes and marks chosen separately.
func LineOf(color, dashes int) (draw.LineStyle, draw.GlyphStyle) {
	line, look, i := Stroke(Color(color), 1.2), Look(color, 3.2), dashes%LineStyles
	line.Dashes = [][]vg.Length{nil, {5, 2}, {1.5, 1.5}, {6, 2, 1.5, 2}}[i]
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CircleGlyph{}}
	look.Shape = Mark{Shape: shapes[i], Hollow: i == 3}
	return line, look
}

// Labels write a text at a corner of each point, preferably the lower left. The text must
// stay in the picture, keep its distance from other points, and not cover the text of an
// earlier point. If there is no such corner, the text is left out, but that of the first point
// may be farther away, at the end of a line.
type Labels struct {
	plotter.XYs
	Texts  []string
	Others plotter.XYs // points without a text, which no label may cover
	Walls  []float64   // X of vertical lines that no label may cross
}

// Plot draws the labels.
func (l Labels) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := Text(9)
	style.XAlign = text.XRight
	const around, point = 8, 4 // closer to a point, a text would seem to be the point's own, or cover it
	var taken []vg.Rectangle
	take := func(points plotter.XYs, room vg.Length) {
		for _, p := range points {
			at := vg.Point{X: x(p.X), Y: y(p.Y)}
			taken = append(taken, Rect(at.X-room, at.Y-room, at.X+room, at.Y+room))
		}
	}
	take(l.XYs, around)
	take(l.Others, point)
	for _, wall := range l.Walls {
		taken = append(taken, Rect(x(wall)-1, c.Min.Y, x(wall)+1, c.Max.Y))
	}
	for i, point := range l.XYs {
		w := style.Width(l.Texts[i])
		for _, corner := range l.corners(i, w) {
			at := vg.Point{X: x(point.X) + corner.X, Y: y(point.Y) + corner.Y}
			box := Rect(at.X-w-2, at.Y-6, at.X, at.Y+4)
			overlaps := func(o vg.Rectangle) bool {
				return box.Min.X < o.Max.X && o.Min.X < box.Max.X && box.Min.Y < o.Max.Y && o.Min.Y < box.Max.Y
			}
			inside := box.Min.X >= c.Min.X && box.Max.X <= c.Max.X && box.Min.Y >= c.Min.Y && box.Max.Y <= c.Max.Y
			if inside && !slices.ContainsFunc(taken[:i], overlaps) && !slices.ContainsFunc(taken[i+1:], overlaps) {
				if far := corner.Y < -nearLabel || corner.Y > nearLabel; far {
					middle := (box.Min.X + box.Max.X) / 2
					c.StrokeLine2(Stroke(RGB(Faint), 0.6), middle, at.Y, x(point.X), y(point.Y))
				}
				c.FillText(style, at, l.Texts[i])
				taken = append(taken, box)
				break
			}
		}
	}
}

// nearLabel is the vertical distance of a label from its point.
const nearLabel = 9

// corners lists where a label of a width may be, from its point.
func (l Labels) corners(i int, w vg.Length) (list []vg.Point) {
	const side, farther = 5, 5
	for distance := vg.Length(1); distance <= farther; distance++ {
		for _, y := range []vg.Length{-nearLabel, nearLabel} {
			list = append(list, vg.Point{X: -side, Y: y * distance}, vg.Point{X: side + w, Y: y * distance})
		}
		if i > 0 {
			break
		}
	}
	return list
}
