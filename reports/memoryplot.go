package reports

import (
	"errors"
	"image/color"
	"io"
	"slices"
	"time"

	"gonum.org/v1/plot/vg"

	"psim/internal/units"
)

// A MemoryFigure is the memory of ranks over time.
type MemoryFigure struct {
	Title  string
	Curves []MemoryCurve
	// End is where the time axis ends, at least: the step time.
	End time.Duration
	// Capacity is the memory of every rank in bytes, by rank; nil is
	// unlimited.
	Capacity []int64
}

// maxMemoryLines is how many different curves get a colour of their own.
const maxMemoryLines = 8

// memoryPlot is the layout of a MemoryFigure.
type memoryPlot struct {
	MemoryFigure
	time, bytes axis
	frame       frame
	lines       []memoryLine // of their own colour
	others      bool         // there are curves without
	capacities  []int64      // distinct, and near enough to be drawn
}

// Memory draws the memory in use on every rank, a line for each of up to
// eight different curves; of more it names those with the highest, the median
// and the lowest peak and draws the others grey. Dashed lines are the memory
// that stays, and the capacity. Format is PNG or SVG.
func Memory(w io.Writer, format string, f MemoryFigure) error {
	if len(f.Curves) == 0 {
		return errors.New("there is no rank whose memory could be drawn")
	}
	m := &memoryPlot{MemoryFigure: f}
	end, peak := f.End, int64(0)
	for _, c := range f.Curves {
		peak = max(peak, c.Peak())
		if n := len(c.Points); n > 0 {
			end = max(end, c.Points[n-1].At)
		}
	}
	if peak <= 0 || end <= 0 {
		return errors.New("the trace uses no memory: there is nothing to draw")
	}
	m.lines, m.others = memoryLines(m.Curves)
	m.chooseCapacities(peak)
	m.time = timeAxis(end, 10)
	m.bytes = byteAxis(slices.Max(append(m.capacities, peak)), 6)
	m.bytes.max *= 1.08 // some air above
	return m.draw(w, format)
}

// chooseCapacities lists the capacities of the ranks, unless they would
// squeeze the curves.
func (m *memoryPlot) chooseCapacities(peak int64) {
	for _, c := range m.Curves {
		if c.Rank < len(m.Capacity) && m.Capacity[c.Rank] > 0 && m.Capacity[c.Rank]/4 <= peak {
			m.capacities = append(m.capacities, m.Capacity[c.Rank])
		}
	}
	slices.Sort(m.capacities)
	m.capacities = slices.Compact(m.capacities)
}

// legend lists what is in the picture.
func (m *memoryPlot) legend() []legendEntry {
	var entries []legendEntry
	for _, l := range m.lines {
		entries = append(entries, legendEntry{text: l.name, color: l.color, line: true, swatch: true})
	}
	if m.others {
		entries = append(entries, legendEntry{text: "other ranks", color: rgb(otherRanks), line: true, swatch: true})
	}
	if slices.ContainsFunc(m.lines, func(l memoryLine) bool { return l.Persistent > 0 }) {
		entries = append(entries, legendEntry{text: "persistent", color: rgb(faint), line: true, dashes: dashed(), swatch: true})
	}
	for _, c := range m.capacities {
		entries = append(entries, legendEntry{text: "capacity " + units.FormatBytes(c), color: rgb(alarm), line: true, dashes: dotted(), swatch: true})
	}
	if len(m.capacities) == 0 && len(m.Capacity) > 0 {
		text := "capacity " + units.FormatBytes(slices.Min(m.Capacity))
		if slices.Max(m.Capacity) > slices.Min(m.Capacity) {
			text += " or more"
		}
		entries = append(entries, legendEntry{text: text + ", above the picture"})
	}
	return entries
}

func dashed() []vg.Length { return []vg.Length{4, 2.5} }
func dotted() []vg.Length { return []vg.Length{1.5, 2} }

// draw lays the picture out and writes it.
func (m *memoryPlot) draw(w io.Writer, format string) error {
	m.frame = chartFrame(70, 300)
	p, legend, err := m.frame.picture(format, m.legend())
	if err != nil {
		return err
	}
	middle := (m.frame.left + m.frame.right) / 2
	p.title(m.Title, m.frame)
	if shared := m.sharedPersistent(); shared > 0 {
		p.rect(rgb(laneFill), m.frame.left, m.y(shared), m.frame.right, m.frame.bottom)
	}
	p.drawTimeAxis(m.frame, m.time)
	m.drawByteAxis(p)
	if m.others {
		for _, c := range m.Curves {
			m.drawCurve(p, c, rgb(otherRanks), 0.4, 3)
		}
	}
	m.drawPersistent(p)
	for _, l := range slices.Backward(m.lines) {
		m.drawCurve(p, l.MemoryCurve, l.color, 1.4, pixel)
	}
	for _, c := range m.capacities {
		y := m.y(c)
		p.stroke(rgb(alarm), 1.4, dotted(), vg.Point{X: m.frame.left, Y: y}, vg.Point{X: m.frame.right, Y: y})
	}
	p.drawLegend(legend, middle, m.frame.bottom+42)
	return p.writeTo(w)
}

// drawByteAxis draws the vertical axis and faint lines across the frame.
func (m *memoryPlot) drawByteAxis(p *picture) {
	for _, tick := range m.bytes.ticks() {
		y := m.y(int64(tick))
		p.stroke(rgb(gridline), 0.5, nil, vg.Point{X: m.frame.left, Y: y}, vg.Point{X: m.frame.right, Y: y})
		p.text(m.bytes.label(tick), m.frame.left-6, y, style{size: 9, align: 1, color: rgb(ink)})
	}
	p.textUp("memory in use ("+m.bytes.unit.name+")", 18, (m.frame.top+m.frame.bottom)/2, style{size: 10, color: rgb(ink)})
}

func (m *memoryPlot) y(bytes int64) vg.Length {
	return m.frame.bottom - (m.frame.bottom-m.frame.top)*vg.Length(float64(bytes)/m.bytes.max)
}

// drawPersistent draws the level of the lines' persistent memory: once where it
// is the same on all, else in every line's colour.
func (m *memoryPlot) drawPersistent(p *picture) {
	dash := func(bytes int64, c color.RGBA) {
		y := m.y(bytes)
		p.stroke(c, 0.9, dashed(), vg.Point{X: m.frame.left, Y: y}, vg.Point{X: m.frame.right, Y: y})
	}
	if shared := m.sharedPersistent(); shared > 0 {
		dash(shared, rgb(faint))
		return
	}
	for _, l := range m.lines {
		if l.Persistent > 0 {
			dash(l.Persistent, l.color)
		}
	}
}

// sharedPersistent is the persistent memory of the ranks where it is the same
// on all that have a line, else 0.
func (m *memoryPlot) sharedPersistent() int64 {
	for _, l := range m.lines {
		if l.Persistent != m.lines[0].Persistent {
			return 0
		}
	}
	return m.lines[0].Persistent
}

// drawCurve draws a curve as steps. Of what happens within a grain it draws the
// highest level and the last.
func (m *memoryPlot) drawCurve(p *picture, c MemoryCurve, color color.RGBA, width, grain vg.Length) {
	at := func(p MemoryPoint) vg.Length {
		return min(m.frame.right, grain*vg.Length(int(m.frame.x(m.time, p.At)/grain+0.5)))
	}
	level := c.Persistent
	line := []vg.Point{{X: m.frame.left, Y: m.y(level)}}
	for i := 0; i < len(c.Points); {
		x := at(c.Points[i])
		high := level
		for ; i < len(c.Points) && at(c.Points[i]) == x; i++ {
			level = c.Points[i].Bytes
			high = max(high, level)
		}
		if m.y(high) == line[len(line)-1].Y && m.y(level) == m.y(high) {
			continue
		}
		line = append(line, vg.Point{X: x, Y: line[len(line)-1].Y})
		for _, bytes := range []int64{high, level} {
			if y := m.y(bytes); y != line[len(line)-1].Y {
				line = append(line, vg.Point{X: x, Y: y})
			}
		}
	}
	line = append(line, vg.Point{X: m.frame.right, Y: m.y(level)})
	p.stroke(color, width, nil, line...)
}
