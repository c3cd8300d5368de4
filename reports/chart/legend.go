package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// An entry of a legend explains a sample, which may be nil.
type entry struct {
	text   string
	sample plot.Thumbnailer
}

// The measures of a legend.
const (
	legendLine  = vg.Length(14)
	sampleWidth = vg.Length(13)
	sampleSpace = vg.Length(17)
	entrySpace  = vg.Length(14) // after each entry
)

// LegendSize is the size of the letters of a legend, and LegendRoom the largest width of one
// of its texts.
const (
	LegendSize = vg.Length(9)
	LegendRoom = vg.Length(380)
)

// Explain adds an entry to the legend: a sample, which may be nil, and a text that explains
// what is drawn like it.
func (f *Figure) Explain(text string, sample plot.Thumbnailer) {
	f.legend = append(f.legend, entry{Shorten(text, Text(LegendSize), LegendRoom), sample})
}

// Remark adds texts to the legend that explain the whole figure.
func (f *Figure) Remark(texts []string) {
	for _, text := range texts {
		f.Explain(text, nil)
	}
}

// width adds up the sample, the text and the space after it.
func (e entry) width() vg.Length {
	w := Text(LegendSize).Width(e.text) + entrySpace
	if e.sample != nil {
		w += sampleSpace
	}
	return w
}

// wrap breaks a legend into lines that are at most a width wide.
func wrap(entries []entry, width vg.Length) [][]entry {
	var lines [][]entry
	var used vg.Length
	for _, e := range entries {
		w := e.width()
		if len(lines) == 0 || used+w-entrySpace > width {
			lines, used = append(lines, nil), 0
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], e)
		used += w
	}
	return lines
}

// drawLegend draws lines of entries at the bottom, each centred on x.
func drawLegend(c draw.Canvas, lines [][]entry, x vg.Length) {
	for i, entries := range lines {
		all := -entrySpace
		for _, e := range entries {
			all += e.width()
		}
		at := vg.Point{X: Snap(x - all/2), Y: margin + (vg.Length(len(lines)-i)-0.5)*legendLine - 3}
		for _, e := range entries {
			text := at
			if e.sample != nil {
				box := Rect(at.X, at.Y-4, at.X+sampleWidth, at.Y+4)
				e.sample.Thumbnail(&draw.Canvas{Canvas: c.Canvas, Rectangle: box})
				text.X += sampleSpace
			}
			c.FillText(Text(LegendSize), text, e.text)
			at.X += e.width()
		}
	}
}

// A Swatch is a sample of a filled area.
type Swatch struct{ color.Color }

// Thumbnail draws the sample for a legend.
func (s Swatch) Thumbnail(c *draw.Canvas) {
	Fill(*c, s.Color, Rect(Snap(c.Min.X), Snap(c.Min.Y), Snap(c.Max.X-1), Snap(c.Max.Y)))
}
