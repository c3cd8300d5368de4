package chart

import (
	"fmt"
	"image/color"
	"strings"
	"unicode"

	"golang.org/x/image/font"
	"gonum.org/v1/plot"
	plotfont "gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colours of everything that is not data, for RGB.
const (
	Ink   = 0x202020 // text
	Faint = 0x707070 // axes, and lines that explain
	Pale  = 0xc8c8c8 // data in the background
	Grid  = 0xdcdcdc
	Shade = 0xf5f5f5 // areas behind data
	Alarm = 0xd55e00 // limits
)

// series counts the colours of Color.
const series = 8

// RGB makes an opaque colour from 0xRRGGBB.
func RGB(hex uint32) color.RGBA {
	return color.RGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 0xff}
}

// Color returns the colour of the i-th series. The colours are those of Okabe and Ito, which
// colour-blind people can distinguish, with a darker yellow.
func Color(i int) color.RGBA {
	return RGB([series]uint32{0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xd55e00, 0xb8a900, 0x303030}[i%series])
}

// InkOn returns the colour of text that can be read on a fill.
func InkOn(fill color.RGBA) color.RGBA {
	if 299*int(fill.R)+587*int(fill.G)+114*int(fill.B) < 128_000 {
		return RGB(0xffffff)
	}
	return RGB(Ink)
}

// The alignments that centre the capitals of Liberation Sans on a height, rather than the
// box of the line. Gonum raises the labels of a vertical axis by the font's descent.
const (
	capitals       text.YAlignment = -0.394
	raisedCapitals text.YAlignment = -0.584
)

// Text returns the style of text: Liberation Sans, which has the widths of Arial, with the
// capitals centred on the position of the text.
func Text(size vg.Length) text.Style {
	return text.Style{
		Color: RGB(Ink), Font: plotfont.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		YAlign: capitals, Handler: plot.DefaultTextHandler,
	}
}

// Bold returns the style of bold text.
func Bold(size vg.Length) text.Style {
	s := Text(size)
	s.Font.Weight = font.WeightBold
	return s
}

// visible escapes control characters like JSON: names in files may contain them, but an SVG
// may not.
func visible(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Shorten cuts the end off a text that is wider than the space for it.
func Shorten(txt string, s text.Style, space vg.Length) string {
	txt = visible(txt)
	const most = 1000 // runes, more than fit in any space
	runes := []rune(txt)
	if len(runes) > most {
		runes = runes[:most]
		txt = string(runes) + "…"
	}
	for n := len(runes); s.Width(txt) > space && n > 0; {
		n--
		txt = string(runes[:n]) + "…"
	}
	return txt
}

// Stroke draws solid lines.
func Stroke(c color.Color, width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: width}
}

// Dashed draws dashed lines.
func Dashed(c color.Color, width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: width, Dashes: []vg.Length{4, 2.5}}
}

// Dotted draws dotted lines.
func Dotted(c color.Color, width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: width, Dashes: []vg.Length{1.5, 2}}
}
