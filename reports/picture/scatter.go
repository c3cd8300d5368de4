package picture

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"psim/reports/chart"
)

// A ScatterFigure compares predictions with published numbers.
type ScatterFigure struct {
	Title  string
	Unit   string // of all numbers; "" for fractions
	Series []ScatterSeries
}

// A ScatterSeries holds points of one colour.
type ScatterSeries struct {
	Name   string
	Points []ScatterPoint
}

// A ScatterPoint is a row of a table. Points that were used to fit constants are drawn
// hollow.
type ScatterPoint struct {
	Published, Predicted float64
	Used                 bool
}

// wideRange is the ratio of the largest to the smallest number above which the axes are
// logarithmic.
const wideRange = 20

// Scatter draws points with the published number to the right and the predicted number
// upwards, and lines where both are equal and where they differ by 5 and 10 %. All numbers
// must be above zero. Both axes have the same range, and are logarithmic if it is wide.
func Scatter(w io.Writer, format string, s ScatterFigure) error {
	low, high := math.Inf(1), 0.0
	for _, series := range s.Series {
		for _, p := range series.Points {
			low, high = min(low, p.Published, p.Predicted), max(high, p.Published, p.Predicted)
		}
	}
	if !(low > 0) || math.IsInf(high, 1) || high == 0 {
		return errors.New("a scatter plot needs points, and numbers above zero")
	}
	f := chart.New(s.Title, 390)
	if high/low > wideRange {
		low, high = low/1.3, high*1.3
		chart.Logarithmic(&f.X, s.axis("published"), low, high)
		chart.Logarithmic(&f.Y, s.axis("predicted"), low, high)
	} else {
		low, high = 0, high*1.08
		chart.Numbers(&f.X, chart.Scale{Label: s.axis("published"), High: high, Intervals: 8})
		chart.Numbers(&f.Y, chart.Scale{Label: s.axis("predicted"), High: high, Intervals: 8})
	}
	for i, series := range s.Series {
		if len(s.Series) == 1 {
			break // the title names it
		}
		f.Explain(series.Name, chart.Swatch{Color: chart.Color(i)})
	}
	s.bands(f, low, high)
	s.points(f)
	return f.Write(w, format)
}

func (s ScatterFigure) axis(name string) string {
	if s.Unit == "" {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, s.Unit)
}

// bands adds the lines on which predictions are a multiple of the published numbers, within
// the frame.
func (s ScatterFigure) bands(f *chart.Figure, low, high float64) {
	faint := chart.RGB(chart.Faint)
	for _, b := range []struct {
		text     string
		style    draw.LineStyle
		multiple []float64
	}{
		{"equal", chart.Stroke(faint, 0.8), []float64{1}},
		{"5 % off", chart.Dashed(faint, 0.8), []float64{1.05, 0.95}},
		{"10 % off", chart.Dotted(faint, 0.8), []float64{1.1, 0.9}},
	} {
		for _, m := range b.multiple {
			from, to := low/min(1, m), high/max(1, m)
			f.Add(chart.Line(b.style, plotter.XY{X: from, Y: from * m}, plotter.XY{X: to, Y: to * m}))
		}
		b.style.Width = 1.6
		f.Explain(b.text, chart.Line(b.style))
	}
}

// points adds a mark for every row.
func (s ScatterFigure) points(f *chart.Figure) {
	used := false
	for i, series := range s.Series {
		look := draw.GlyphStyle{Color: chart.Color(i), Radius: 2.6}
		points := &plotter.Scatter{GlyphStyle: look}
		for _, p := range series.Points {
			points.XYs = append(points.XYs, plotter.XY{X: p.Published, Y: p.Predicted})
		}
		points.GlyphStyleFunc = func(k int) draw.GlyphStyle {
			look.Shape = chart.Mark{Shape: draw.CircleGlyph{}, Hollow: series.Points[k].Used}
			return look
		}
		f.Add(points)
		used = used || slices.ContainsFunc(series.Points, func(p ScatterPoint) bool { return p.Used })
	}
	if used {
		f.Explain("hollow: used for the fit", nil)
	}
}
