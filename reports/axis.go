package reports

import (
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot/vg"
)

// axisUnit is a unit that an axis can be labelled in.
type axisUnit struct {
	name string
	size float64
	from float64 // the shortest axis that it serves
}

// An axis runs from 0 to max, and has ticks at round numbers of a unit.
type axis struct {
	max  float64
	unit axisUnit
	step float64 // between ticks
}

// newAxis chooses the last unit that serves max, and the finest round
// step of it that makes at most so many intervals.
func newAxis(max float64, units []axisUnit, intervals int) axis {
	a := axis{max: max, unit: units[0]}
	for _, u := range units {
		if max >= u.from {
			a.unit = u
		}
	}
	rough := max / a.unit.size / float64(intervals)
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, digit := range []float64{1, 2, 5, 10} {
		if digit*power >= rough*(1-1e-9) {
			a.step = digit * power * a.unit.size
			break
		}
	}
	return a
}

// timeAxis is an axis in ns, µs, ms, s, minutes or hours.
func timeAxis(end time.Duration, intervals int) axis {
	return newAxis(float64(end), []axisUnit{
		{"ns", 1, 0}, {"µs", 1e3, 1e3}, {"ms", 1e6, 1e6}, {"s", 1e9, 1e9},
		{"min", 60e9, 600e9}, {"h", 3600e9, 36000e9},
	}, intervals)
}

// byteAxis is an axis in decimal units of bytes.
func byteAxis(max int64, intervals int) axis {
	return newAxis(float64(max), []axisUnit{
		{"B", 1, 0}, {"kB", 1e3, 1e3}, {"MB", 1e6, 1e6}, {"GB", 1e9, 1e9},
		{"TB", 1e12, 1e12}, {"PB", 1e15, 1e15}, {"EB", 1e18, 1e18},
	}, intervals)
}

// ticks lists the values of the ticks.
func (a axis) ticks() []float64 {
	var ticks []float64
	for i := 0; float64(i)*a.step <= a.max*(1+1e-9); i++ {
		ticks = append(ticks, float64(i)*a.step)
	}
	return ticks
}

// label prints a tick in the axis's unit, all with as many decimals as the
// step needs.
func (a axis) label(value float64) string {
	step := a.step / a.unit.size
	decimals := max(0, int(-math.Floor(math.Log10(step)+1e-9)))
	return strconv.FormatFloat(value/a.unit.size, 'f', decimals, 64)
}

// frame is the part of a picture that the data lie in.
type frame struct{ left, right, top, bottom vg.Length }

// chartFrame is the frame of a chart as high as given, with room for the labels of
// its vertical axis on the left.
func chartFrame(left, height vg.Length) frame {
	const width, top = 900, 34
	return frame{left: left, right: width - 24, top: top, bottom: top + height}
}

// picture is an empty one around a chart's frame, with room for the legend, in
// lines, below.
func (f frame) picture(format string, entries []legendEntry) (*picture, [][]legendEntry, error) {
	face := sans()
	legend := wrapLegend(entries, f.right-f.left, face)
	p, err := newPicture(format, f.right+24, f.bottom+44+vg.Length(len(legend))*legendLine, face)
	return p, legend, err
}

// x is the position of a time on a time axis.
func (f frame) x(a axis, t time.Duration) vg.Length {
	return f.left + (f.right-f.left)*vg.Length(float64(t)/a.max)
}

// drawTimeAxis draws ticks, their labels and the unit below a frame, and faint
// lines across it.
func (p *picture) drawTimeAxis(f frame, a axis) {
	p.stroke(rgb(faint), 0.6, nil, vg.Point{X: f.left, Y: f.bottom}, vg.Point{X: f.right, Y: f.bottom})
	for _, tick := range a.ticks() {
		x := f.x(a, time.Duration(tick))
		p.stroke(rgb(gridline), 0.5, nil, vg.Point{X: x, Y: f.top}, vg.Point{X: x, Y: f.bottom})
		p.stroke(rgb(faint), 0.6, nil, vg.Point{X: x, Y: f.bottom}, vg.Point{X: x, Y: f.bottom + 3})
		p.text(a.label(tick), x, f.bottom+10, style{size: 9, align: 0.5, color: rgb(ink)})
	}
	p.text("time ("+a.unit.name+")", (f.left+f.right)/2, f.bottom+23, style{size: 10, align: 0.5, color: rgb(ink)})
}
