package chart

import (
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A headline is a line of the head of a figure, and the room that it takes.
type headline struct {
	text   string
	style  text.Style
	height vg.Length
}

// headSpace is the space between the head and the data.
const headSpace = vg.Length(8)

// head lists the lines above the data. A title that is too long for a line in the usual size takes
// two, and is set in smaller letters if it must be.
func (f *Figure) head() (lines []headline) {
	const usual, least, below, room = 11, 8, 9.5, width - 2*margin
	size, parts := vg.Length(usual), []string{visible(f.title)}
	if Bold(usual).Width(parts[0]) > room {
		parts = halves(parts[0])
	}
	for _, part := range parts {
		for size > least && Bold(size).Width(part) > room {
			size -= 0.5
		}
	}
	for _, part := range parts {
		if part != "" {
			lines = append(lines, headline{Shorten(part, Bold(size), room), Bold(size), size + 3})
		}
	}
	if f.subtitle != "" {
		lines = append(lines, headline{Shorten(f.subtitle, Text(below), room), Text(below), below + 4})
	}
	return lines
}

// halves breaks a title into two lines of similar width, after a comma or else a space.
func halves(title string) []string {
	best, widest := []string{title}, Bold(1).Width(title)
	for _, after := range []string{", ", " "} {
		for i := range title {
			if !strings.HasPrefix(title[i:], after) {
				continue
			}
			parts := []string{strings.TrimRight(title[:i+len(after)], " "), title[i+len(after):]}
			if w := max(Bold(1).Width(parts[0]), Bold(1).Width(parts[1])); w < widest {
				best, widest = parts, w
			}
		}
		if len(best) > 1 {
			break
		}
	}
	return best
}

// headHeight adds up the lines, and the space below them.
func headHeight(lines []headline) (sum vg.Length) {
	for _, l := range lines {
		sum += l.height
	}
	if sum > 0 {
		sum += headSpace
	}
	return Snap(sum)
}

// drawHead writes lines below each other, centred below a point.
func drawHead(c draw.Canvas, lines []headline, at vg.Point) {
	for _, l := range lines {
		l.style.XAlign = text.XCenter
		c.FillText(l.style, vg.Point{X: at.X, Y: at.Y - l.height/2}, l.text)
		at.Y -= l.height
	}
}
