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
	lineWidth   = vg.Length(26) // of a line with its marks
	sampleGap   = vg.Length(4)  // after each sample
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

// room returns the width of the sample and of the gap after it.
func (e entry) room() vg.Length {
	switch e.sample.(type) {
	case nil:
		return 0
	case MarkedLine:
		return lineWidth + sampleGap
	}
	return sampleWidth + sampleGap
}

// width adds up the sample, the text and the space after it.
func (e entry) width() vg.Length { return e.room() + Text(LegendSize).Width(e.text) + entrySpace }

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
				box := Rect(at.X, at.Y-4, at.X+e.room()-sampleGap, at.Y+4)
				e.sample.Thumbnail(&draw.Canvas{Canvas: c.Canvas, Rectangle: box})
				text.X += e.room()
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

// A MarkedLine is a sample of a line with marks on it.
type MarkedLine struct {
	Line  draw.LineStyle
	Marks draw.GlyphStyle
}

// Thumbnail draws the sample for a legend.
func (m MarkedLine) Thumbnail(c *draw.Canvas) {
	y := (c.Min.Y + c.Max.Y) / 2
	c.StrokeLine2(m.Line, c.Min.X, y, c.Max.X, y)
	c.DrawGlyph(m.Marks, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: y})
}
