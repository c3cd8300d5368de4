package chart

import (
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgpdf"
)

// Without a fixed date, a PDF would hold the time at which it was written.
func init() {
	fpdf.SetDefaultCreationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultModificationDate(time.Unix(0, 0).UTC())
}

// pdfPage draws letters as outlines, so that a PDF needs no fonts and can show letters that
// the standard fonts of PDFs lack.
type pdfPage struct{ *vgpdf.Canvas }

// FillString writes a text.
func (p pdfPage) FillString(f font.Face, at vg.Point, text string) {
	var buffer sfnt.Buffer
	perEm := fixed.I(int(f.Face.UnitsPerEm()))
	scale := f.Font.Size / vg.Length(f.Face.UnitsPerEm()) / 64
	for _, r := range text {
		glyph, err := f.Face.GlyphIndex(&buffer, r)
		if err != nil {
			continue
		}
		if segments, err := f.Face.LoadGlyph(&buffer, glyph, perEm, nil); err == nil && len(segments) > 0 {
			p.Fill(outline(segments, at, scale))
		}
		if advance, err := f.Face.GlyphAdvance(&buffer, glyph, perEm, 0); err == nil {
			at.X += vg.Length(advance) * scale
		}
	}
}

// outline returns the path around a letter at a point.
func outline(segments sfnt.Segments, at vg.Point, scale vg.Length) vg.Path {
	var path vg.Path
	place := func(p fixed.Point26_6) vg.Point {
		return vg.Point{X: at.X + vg.Length(p.X)*scale, Y: at.Y - vg.Length(p.Y)*scale}
	}
	for _, s := range segments {
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			path.Move(place(s.Args[0]))
		case sfnt.SegmentOpLineTo:
			path.Line(place(s.Args[0]))
		case sfnt.SegmentOpQuadTo:
			path.QuadTo(place(s.Args[0]), place(s.Args[1]))
		case sfnt.SegmentOpCubeTo:
			path.CubeTo(place(s.Args[0]), place(s.Args[1]), place(s.Args[2]))
		}
	}
	path.Close()
	return path
}
