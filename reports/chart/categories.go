package chart

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// Columns makes a horizontal axis of names, the i-th at i, without lines of the grid.
// Names that would run into each other are turned upright. If there are very many, some
// are left out.
func (f *Figure) Columns(label string, names []string) {
	const axis, line, most = 390, 11, 150
	a := &f.X
	style, room, widest := a.Tick.Label, vg.Length(axis)/vg.Length(len(names)), vg.Length(0)
	for _, name := range names {
		widest = max(widest, style.Width(name))
	}
	every := 1
	if widest+4 > room {
		a.Tick.Label.Rotation, a.Tick.Label.XAlign, a.Tick.Label.YAlign = math.Pi/2, text.XRight, text.YCenter
		every = int(math.Ceil(line / float64(room)))
	}
	var ticks plot.ConstantTicks
	for i := 0; i < len(names); i += every {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: Shorten(names[i], style, most)})
	}
	a.Min, a.Max, a.Label.Text, a.Tick.Marker = -0.5, float64(len(names))-0.5, visible(label), ticks
	a.Tick.Color = color.Transparent
	f.grid.Vertical.Color = nil
}

// Values makes a horizontal axis of numbers in ascending order with a tick at each, as far as their
// names have room. It is logarithmic where that spreads the closest of them much better.
func (f *Figure) Values(label string, values []float64, names []string) {
	const axis, gap, margin, better = 390, 6, 0.08, 1.5
	low, high := values[0], values[len(values)-1]
	at, back := func(x float64) float64 { return x }, func(x float64) float64 { return x }
	if low > 0 && closest(values, math.Log) > better*closest(values, at)*(1-1e-9) {
		at, back = math.Log, math.Exp
		f.X.Scale, label = plot.LogScale{}, label+" (log scale)"
	}
	width := at(high) - at(low)
	var ticks plot.ConstantTicks
	end := math.Inf(-1) // of the last name, in points
	for i, v := range values {
		half := float64(f.X.Tick.Label.Width(names[i])) / 2
		middle := axis / (1 + 2*margin) * (at(v) - at(low)) / width
		tick := plot.Tick{Value: v}
		if middle-half >= end+gap {
			tick.Label, end = names[i], middle+half
		}
		ticks = append(ticks, tick)
	}
	f.X.Min, f.X.Max = back(at(low)-margin*width), back(at(high)+margin*width)
	f.X.Label.Text, f.X.Tick.Marker = visible(label), ticks
}

// closest returns the smallest distance between neighbours as a share of the whole range.
func closest(values []float64, at func(float64) float64) float64 {
	least := math.Inf(1)
	for i, v := range values[1:] {
		least = min(least, at(v)-at(values[i]))
	}
	return least / (at(values[len(values)-1]) - at(values[0]))
}

// Rows makes a vertical axis of names, the i-th at i, without lines of the grid. If there
// are very many, some are left out.
func (f *Figure) Rows(label string, names []string) {
	const most, line = 100, 11
	a := &f.Y
	every := max(1, int(math.Ceil(line*float64(len(names))/float64(f.height))))
	var ticks plot.ConstantTicks
	for i := 0; i < len(names); i += every {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: Shorten(names[i], a.Tick.Label, most)})
	}
	a.Min, a.Max, a.Label.Text, a.Tick.Marker = -0.5, float64(len(names))-0.5, visible(label), ticks
	a.Tick.Color = color.Transparent
	f.grid.Horizontal.Color = nil
}
