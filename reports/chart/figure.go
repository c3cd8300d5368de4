// Package chart gives gonum's plots one look: a font, sizes, colours, axes in readable
// units, and a legend below the data, which never covers the data.
// A Figure takes any plot.Plotter and is written as PNG, SVG or PDF.
//
// The package does not depend on traces or results. The packages that draw them decide what
// is where; this package decides how it looks and writes the files.
// Equal figures give equal bytes.
package chart

import (
	"image/color"
	"io"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The size of figures. The width is that of the text of a page, so that letters have the
// same size in print.
const (
	width  = 6.5 * vg.Inch
	margin = vg.Length(8)
)

// A Figure is a plot in the common style: plotters that are added to it are drawn over a
// faint grid, and the legend is below.
type Figure struct {
	*plot.Plot
	height          vg.Length // of the data
	title, subtitle string
	grid            *plotter.Grid
	legend          []entry
	below           *Figure   // another figure below the data; may be nil
	left, right     vg.Length // how far the plot is moved in
}

// New makes an empty figure in which the data has a height. What follows the first line of the title
// is written below it in smaller letters.
func New(title string, height vg.Length) *Figure {
	f := &Figure{Plot: plot.New(), height: height}
	f.title, f.subtitle, _ = strings.Cut(title, "\n")
	for _, a := range []*plot.Axis{&f.X, &f.Y} {
		label, tick := Text(10), Text(9)
		label.XAlign, label.YAlign = a.Label.TextStyle.XAlign, a.Label.TextStyle.YAlign
		tick.XAlign, tick.YAlign = a.Tick.Label.XAlign, a.Tick.Label.YAlign
		a.Label.TextStyle, a.Label.Padding, a.Tick.Label = label, 4, tick
		a.LineStyle, a.Tick.LineStyle, a.Tick.Length = Stroke(RGB(Faint), 0.6), Stroke(RGB(Faint), 0.6), 3
		a.Padding = 0
	}
	f.Y.Tick.Label.YAlign = raisedCapitals
	f.grid = &plotter.Grid{Vertical: Stroke(RGB(Grid), 0.5), Horizontal: Stroke(RGB(Grid), 0.5)}
	f.Add(f.grid)
	return f
}

// NoLine removes the line and the ticks of an axis, but not its labels.
func NoLine(a *plot.Axis) { a.Width, a.Tick.Length, a.Padding = 0, 0, 3 }

// DataWidth returns how wide the data will be, once the axes are set.
func (f *Figure) DataWidth() vg.Length {
	_, data := f.layout(0)
	return data.Max.X - data.Min.X
}

// layout places the plot above a legend, and the data within the plot. The corners of the
// data are on whole pixels. How far labels reach beyond the data depends on its size, so it
// takes a few rounds to find the layout.
func (f *Figure) layout(legend vg.Length) (all, data vg.Rectangle) {
	area := func(r vg.Rectangle) vg.Rectangle { return f.DataCanvas(draw.Canvas{Rectangle: r}).Rectangle }
	all = Rect(margin+f.left, legend+margin, width-margin-f.right, 2*f.height)
	for range 4 {
		data = area(all)
		rise := ceil(data.Min.Y) - data.Min.Y
		all.Min.X += ceil(data.Min.X) - data.Min.X
		all.Max.X -= data.Max.X + ceil(-data.Max.X)
		all.Min.Y += rise
		all.Max.Y += rise + f.height - (data.Max.Y - data.Min.Y)
	}
	return all, area(all)
}

// align moves the plots of two figures in, so that their data begin and end at the same positions.
func (f *Figure) align(other *Figure) {
	_, a := f.layout(0)
	_, b := other.layout(0)
	f.left, other.left = max(0, b.Min.X-a.Min.X), max(0, a.Min.X-b.Min.X)
	f.right, other.right = max(0, a.Max.X-b.Max.X), max(0, b.Max.X-a.Max.X)
}

// ceil rounds a position up to whole pixels.
func ceil(x vg.Length) vg.Length { return Pixel * vg.Length(math.Ceil(float64(x/Pixel)-1e-6)) }

// Write draws the figure into a file of a format.
func (f *Figure) Write(w io.Writer, format string) error {
	if f.below != nil {
		f.align(f.below)
	}
	lines, head := wrap(f.legend, f.DataWidth()), f.head()
	bottom := vg.Length(len(lines)) * legendLine
	var lower vg.Rectangle
	if f.below != nil {
		lower, _ = f.below.layout(bottom)
		bottom = lower.Max.Y
	}
	all, data := f.layout(bottom)
	top := all.Max.Y + headHeight(head)
	c, err := newCanvas(format, width, vg.Length(math.Ceil(float64(top+margin))))
	if err != nil {
		return err
	}
	page := draw.New(c)
	Fill(page, color.White, Rect(0, 0, page.Max.X, page.Max.Y))
	f.BackgroundColor = nil
	f.Draw(draw.Canvas{Canvas: c, Rectangle: all})
	if f.below != nil {
		f.below.BackgroundColor = nil
		f.below.Draw(draw.Canvas{Canvas: c, Rectangle: lower})
	}
	drawHead(page, head, vg.Point{X: width / 2, Y: top})
	drawLegend(page, lines, (data.Min.X+data.Max.X)/2)
	return encode(w, c)
}
