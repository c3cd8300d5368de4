package reports

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot/vg"
)

// A ScatterFigure is predictions against what was published.
type ScatterFigure struct {
	Title  string
	Unit   string // of all numbers; "" for fractions
	Series []ScatterSeries
}

// A ScatterSeries is points of one colour.
type ScatterSeries struct {
	Name   string
	Points []ScatterPoint
}

// A ScatterPoint is a row of a table. Used points, those that constants were
// fitted to, are drawn hollow.
type ScatterPoint struct {
	Published, Predicted float64
	Used                 bool
}

// wideRange is the ratio of the largest to the smallest number from which on the
// axes are logarithmic.
const wideRange = 20

// scatterPlot is the layout of a ScatterFigure: both axes from low to high.
type scatterPlot struct {
	ScatterFigure
	low, high float64
	log       bool
	frame     frame
}

// Scatter draws what was published to the right and what was predicted upwards,
// with lines where both are equal and where they differ by 5 and 10 %. All
// numbers must be above zero. Both axes have the same range, logarithmic where
// it is wide.
func Scatter(w io.Writer, format string, f ScatterFigure) error {
	s := &scatterPlot{ScatterFigure: f, low: math.Inf(1)}
	for _, series := range f.Series {
		for _, p := range series.Points {
			s.low = min(s.low, p.Published, p.Predicted)
			s.high = max(s.high, p.Published, p.Predicted)
		}
	}
	if !(s.low > 0) || math.IsInf(s.high, 1) || s.high == 0 {
		return errors.New("a scatter plot needs points, and numbers above zero")
	}
	if s.log = s.high/s.low > wideRange; s.log {
		s.low, s.high = s.low/1.3, s.high*1.3
	} else {
		s.low, s.high = 0, s.high*1.08
	}
	return s.draw(w, format)
}

// share is where a number is on an axis, from 0 to 1.
func (s *scatterPlot) share(v float64) vg.Length {
	if s.log {
		return vg.Length(math.Log(v/s.low) / math.Log(s.high/s.low))
	}
	return vg.Length((v - s.low) / (s.high - s.low))
}

func (s *scatterPlot) at(published, predicted float64) vg.Point {
	return vg.Point{
		X: s.frame.left + (s.frame.right-s.frame.left)*s.share(published),
		Y: s.frame.bottom - (s.frame.bottom-s.frame.top)*s.share(predicted),
	}
}

// ticks lists round numbers of the axes.
func (s *scatterPlot) ticks() []float64 {
	if !s.log {
		return newAxis(s.high, []axisUnit{{size: 1}}, 8).ticks()
	}
	var ticks []float64
	decades := math.Log10(s.high / s.low)
	for power := math.Floor(math.Log10(s.low)); power <= math.Log10(s.high); power++ {
		for _, digit := range []float64{1, 2, 5} {
			tick := digit * math.Pow(10, power)
			if tick >= s.low && tick <= s.high && (digit == 1 || decades < 4) {
				ticks = append(ticks, tick)
			}
		}
	}
	return ticks
}

// draw lays the picture out and writes it.
func (s *scatterPlot) draw(w io.Writer, format string) error {
	s.frame = chartFrame(s.labelWidth(sans())+34, 520)
	pic, legend, err := s.frame.picture(format, s.legend())
	if err != nil {
		return err
	}
	middle := (s.frame.left + s.frame.right) / 2
	pic.title(s.Title, s.frame)
	s.drawAxes(pic)
	for _, off := range scatterBands() {
		s.drawBand(pic, 1+off.share, off.entry)
		s.drawBand(pic, 1-off.share, off.entry)
	}
	for i, series := range s.Series {
		for _, p := range series.Points {
			s.drawPoint(pic, p, rankColor(i))
		}
	}
	pic.drawLegend(legend, middle, s.frame.bottom+42)
	return pic.writeTo(w)
}

// scatterBand is a pair of lines beside the diagonal.
type scatterBand struct {
	share float64
	entry legendEntry
}

func scatterBands() []scatterBand {
	line := func(text string, dashes []vg.Length) legendEntry {
		return legendEntry{text: text, color: rgb(faint), line: true, dashes: dashes, swatch: true}
	}
	return []scatterBand{{0, line("equal", nil)}, {0.05, line("5 % off", dashed())}, {0.1, line("10 % off", dotted())}}
}

func (s *scatterPlot) legend() []legendEntry {
	var entries []legendEntry
	used := false
	for i, series := range s.Series {
		entries = append(entries, legendEntry{text: series.Name, color: rankColor(i), swatch: true})
		for _, p := range series.Points {
			used = used || p.Used
		}
	}
	for _, off := range scatterBands() {
		entries = append(entries, off.entry)
	}
	if used {
		entries = append(entries, legendEntry{text: "hollow: used for the fit"})
	}
	return entries
}

// tickLabel is the text at a tick.
func tickLabel(tick float64) string { return strconv.FormatFloat(tick, 'g', 6, 64) }

// labelWidth is the width of the widest label of the vertical axis.
func (s *scatterPlot) labelWidth(t typeface) (width vg.Length) {
	for _, tick := range s.ticks() {
		width = max(width, t.width(tickLabel(tick), style{size: 9}))
	}
	return width
}

// drawAxes draws both axes with faint lines across the frame.
func (s *scatterPlot) drawAxes(pic *picture) {
	f := s.frame
	for _, tick := range s.ticks() {
		at, label := s.at(tick, tick), tickLabel(tick)
		pic.stroke(rgb(gridline), 0.5, nil, vg.Point{X: at.X, Y: f.top}, vg.Point{X: at.X, Y: f.bottom})
		pic.stroke(rgb(gridline), 0.5, nil, vg.Point{X: f.left, Y: at.Y}, vg.Point{X: f.right, Y: at.Y})
		pic.text(label, at.X, f.bottom+10, style{size: 9, align: 0.5, color: rgb(ink)})
		pic.text(label, f.left-6, at.Y, style{size: 9, align: 1, color: rgb(ink)})
	}
	pic.stroke(rgb(faint), 0.6, nil, vg.Point{X: f.left, Y: f.top}, vg.Point{X: f.left, Y: f.bottom}, vg.Point{X: f.right, Y: f.bottom})
	unit := ""
	if s.Unit != "" {
		unit = fmt.Sprintf(" (%s)", s.Unit)
	}
	pic.text("published"+unit, (f.left+f.right)/2, f.bottom+23, style{size: 10, align: 0.5, color: rgb(ink)})
	pic.textUp("predicted"+unit, 18, (f.top+f.bottom)/2, style{size: 10, color: rgb(ink)})
}

// drawBand draws where predictions are a multiple of what was published, within
// the frame.
func (s *scatterPlot) drawBand(pic *picture, multiple float64, e legendEntry) {
	from, to := s.low/min(1, multiple), s.high/max(1, multiple)
	pic.stroke(e.color, 0.8, e.dashes, s.at(from, from*multiple), s.at(to, to*multiple))
}

func (s *scatterPlot) drawPoint(pic *picture, p ScatterPoint, c color.RGBA) {
	at := s.at(p.Published, p.Predicted)
	pic.mark(disc, color.White, at, 3.2)
	pic.mark(disc, c, at, 2.6)
	if p.Used {
		pic.mark(disc, color.White, at, 1.7)
	}
}
