package reports

import (
	"image/color"

	"gonum.org/v1/plot/vg"
)

// A mark is the shape of a point.
type mark int

const (
	noMark mark = iota
	disc
	square
	triangle

	marks = triangle
)

// mark fills the shape around a point, all of about the same size.
func (p *picture) mark(m mark, c color.Color, at vg.Point, radius vg.Length) {
	const whole = 6.283185307179586
	x, y := at.X, p.height-at.Y
	var path vg.Path
	switch m {
	case square:
		r := 0.9 * radius
		path.Move(vg.Point{X: x - r, Y: y - r})
		path.Line(vg.Point{X: x + r, Y: y - r})
		path.Line(vg.Point{X: x + r, Y: y + r})
		path.Line(vg.Point{X: x - r, Y: y + r})
	case triangle:
		path.Move(vg.Point{X: x - 1.15*radius, Y: y - 0.85*radius})
		path.Line(vg.Point{X: x + 1.15*radius, Y: y - 0.85*radius})
		path.Line(vg.Point{X: x, Y: y + 1.15*radius})
	default:
		path.Move(vg.Point{X: x + radius, Y: y})
		path.Arc(vg.Point{X: x, Y: y}, radius, 0, whole)
	}
	path.Close()
	p.SetColor(c)
	p.Fill(path)
}
