package reports

import (
	"image/color"

	"gonum.org/v1/plot/vg"
)

// A legendEntry is a swatch and its meaning.
type legendEntry struct {
	text   string
	color  color.Color
	line   bool        // a line instead of a rectangle
	dashes []vg.Length // of the line
	mark   mark        // instead of a rectangle
	swatch bool        // false: text alone
}

const legendLine = vg.Length(15) // height of a line of the legend

const legendSize = vg.Length(9.5)

// width of an entry, with the space after it.
func (e legendEntry) width(t typeface) vg.Length {
	w := t.width(e.text, style{size: legendSize}) + 16
	if e.swatch {
		w += 18
	}
	return w
}

// wrapLegend breaks a legend into lines of at most a width.
func wrapLegend(entries []legendEntry, width vg.Length, t typeface) [][]legendEntry {
	var lines [][]legendEntry
	var used vg.Length
	for _, e := range entries {
		w := e.width(t)
		if len(lines) == 0 || used+w > width {
			lines, used = append(lines, nil), 0
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], e)
		used += w
	}
	return lines
}

// drawLegend draws lines of a legend, each centred on x, the first at y.
func (p *picture) drawLegend(lines [][]legendEntry, x, y vg.Length) {
	for i, entries := range lines {
		var width vg.Length
		for _, e := range entries {
			width += e.width(p.typeface)
		}
		p.drawEntries(entries, x-(width-16)/2, y+vg.Length(i)*legendLine)
	}
}

func (p *picture) drawEntries(entries []legendEntry, x, y vg.Length) {
	for _, e := range entries {
		at := x
		switch {
		case e.swatch && e.line:
			p.stroke(e.color, 1.6, e.dashes, vg.Point{X: at, Y: y}, vg.Point{X: at + 14, Y: y})
		case e.swatch && e.mark != noMark:
			p.mark(e.mark, e.color, vg.Point{X: at + 9, Y: y}, 4)
		case e.swatch:
			p.rect(e.color, snap(at), snap(y-4), snap(at+13), snap(y+4))
		}
		if e.swatch {
			at += 18
		}
		p.text(e.text, at, y, style{size: legendSize, color: rgb(ink)})
		x += e.width(p.typeface)
	}
}
