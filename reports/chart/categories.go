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
