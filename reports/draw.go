package reports

import (
	"bytes"
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The formats of pictures.
const (
	PNG = "png"
	SVG = "svg"
)

// pixel is the size of a pixel of a PNG, at 144 dots per inch. Edges of
// rectangles are rounded to it in both formats.
const pixel = vg.Length(0.5)

// snap rounds a position to whole pixels.
func snap(x vg.Length) vg.Length { return pixel * vg.Length(int(x/pixel+0.5)) }

// typeface holds the fonts of a picture.
type typeface struct{ regular, bold font.Face }

// sans is Liberation Sans, which has the widths of Arial and Helvetica.
func sans() typeface {
	var t typeface
	for _, f := range liberation.Collection() {
		switch f.Name() {
		case "LiberationSans-Regular":
			t.regular = f
		case "LiberationSans-Bold":
			t.bold = f
		}
	}
	return t
}

// style is how a text is set. Align is 0 where it starts at its position, 0.5
// where it is centred there and 1 where it ends there.
type style struct {
	size  vg.Length
	align vg.Length
	bold  bool
	color color.Color
}

func (t typeface) face(s style) font.Face {
	f := t.regular
	if s.bold {
		f = t.bold
	}
	f.Font.Size = s.size
	return f
}

func (t typeface) width(text string, s style) vg.Length {
	f := t.face(s)
	return f.Width(text)
}

// A picture is a canvas whose y axis points down from the top left corner.
type picture struct {
	vg.Canvas
	typeface
	height vg.Length
	svg    *vgsvg.Canvas // one of the two
	png    *vgimg.Canvas
}

func newPicture(format string, width, height vg.Length, t typeface) (*picture, error) {
	p := &picture{typeface: t, height: height}
	switch format {
	case PNG:
		p.png = vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144))
		p.Canvas = p.png
	case SVG:
		p.svg = vgsvg.New(width, height)
		p.Canvas = p.svg
		p.rect(color.White, 0, 0, width, height)
	default:
		return nil, fmt.Errorf("there is no picture format %q; the formats are %s and %s", format, PNG, SVG)
	}
	return p, nil
}

// rect fills a rectangle from its top left to its bottom right corner.
func (p *picture) rect(c color.Color, x0, y0, x1, y1 vg.Length) {
	var path vg.Path
	path.Move(vg.Point{X: x0, Y: p.height - y0})
	path.Line(vg.Point{X: x1, Y: p.height - y0})
	path.Line(vg.Point{X: x1, Y: p.height - y1})
	path.Line(vg.Point{X: x0, Y: p.height - y1})
	path.Close()
	p.SetColor(c)
	p.Fill(path)
}

// stroke draws a line through points.
func (p *picture) stroke(c color.Color, width vg.Length, dashes []vg.Length, points ...vg.Point) {
	var path vg.Path
	for i, pt := range points {
		pt.Y = p.height - pt.Y
		if i == 0 {
			path.Move(pt)
		} else {
			path.Line(pt)
		}
	}
	p.SetColor(c)
	p.SetLineWidth(width)
	p.SetLineDash(dashes, 0)
	p.Stroke(path)
}

// text sets a line of text whose capitals are centred on y.
func (p *picture) text(text string, x, y vg.Length, s style) {
	const capHeight = 0.69
	p.SetColor(s.color)
	x -= s.align * p.width(text, s)
	p.FillString(p.face(s), vg.Point{X: x, Y: p.height - y - s.size*capHeight/2}, text)
}

// title sets a title above a frame: in smaller type if it is too long, and
// without its end if even that is.
func (p *picture) title(text string, f frame) {
	const usual, least = 12, 9
	room := f.right - f.left
	s := style{size: usual, align: 0.5, bold: true, color: rgb(ink)}
	for s.size > least && p.width(text, s) > room {
		s.size -= 0.5
	}
	p.text(p.shortened(text, room, s), (f.left+f.right)/2, 17, s)
}

// shortened cuts the end of a text that is wider than its room.
func (p *picture) shortened(text string, room vg.Length, s style) string {
	runes := []rune(text)
	for n := len(runes); p.width(text, s) > room && n > 0; {
		n--
		text = string(runes[:n]) + "…"
	}
	return text
}

// textUp sets text that reads upwards, centred on its position.
func (p *picture) textUp(text string, x, y vg.Length, s style) {
	const quarter = 1.5707963267948966
	p.Push()
	p.Translate(vg.Point{X: x, Y: p.height - y})
	p.Rotate(quarter)
	p.Translate(vg.Point{X: 0, Y: -p.height})
	s.align = 0.5
	p.text(text, 0, 0, s)
	p.Pop()
}

// writeTo writes the picture. An SVG names fonts to fall back on.
func (p *picture) writeTo(w io.Writer) error {
	if p.png != nil {
		return writePNG(w, p.png.Image())
	}
	var b bytes.Buffer
	if _, err := p.svg.WriteTo(&b); err != nil {
		return err
	}
	_, err := w.Write(bytes.ReplaceAll(b.Bytes(),
		[]byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")))
	return err
}
