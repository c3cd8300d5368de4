package reports

import (
	"cmp"
	"errors"
	"fmt"
	"image/color"
	"io"
	"slices"
	"time"

	"gonum.org/v1/plot/vg"

	"psim/internal/units"
)

// A ParetoFigure is plans by the memory they need and the time they take.
type ParetoFigure struct {
	Title string
	Plans []Plan
	// Capacity is the memory of a rank in bytes; 0 is unlimited or not known.
	Capacity int64
}

// paretoPlot is the layout of a ParetoFigure.
type paretoPlot struct {
	ParetoFigure
	bytes, time axis
	frame       frame
	schedules   []string
	front       []int // indices of plans, by memory
}

// Pareto draws every plan as a point, the peak memory of its fullest rank to the
// right and its step time upwards. The line joins the plans that no other plan
// beats in both; those carry their sizes.
func Pareto(w io.Writer, format string, f ParetoFigure) error {
	p := &paretoPlot{ParetoFigure: f}
	var peak int64
	var slowest float64
	for _, plan := range f.Plans {
		peak, slowest = max(peak, plan.PeakMemory()), max(slowest, plan.StepTime)
		if !slices.Contains(p.schedules, plan.Schedule) {
			p.schedules = append(p.schedules, plan.Schedule)
		}
	}
	if peak <= 0 || slowest <= 0 {
		return errors.New("no plan takes both time and memory: there is nothing to draw")
	}
	slices.Sort(p.schedules)
	if f.Capacity > 0 && f.Capacity/4 <= peak {
		peak = max(peak, f.Capacity)
	}
	p.front = paretoFront(f.Plans)
	p.bytes, p.time = byteAxis(peak, 10), timeAxis(time.Duration(slowest*float64(time.Second)), 6)
	p.bytes.max *= 1.06 // some air beside and above
	p.time.max *= 1.1
	return p.draw(w, format)
}

// paretoFront lists the plans that no other beats both in memory and in time, by
// memory.
func paretoFront(plans []Plan) []int {
	order := make([]int, len(plans))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(plans[a].PeakMemory(), plans[b].PeakMemory()), cmp.Compare(plans[a].StepTime, plans[b].StepTime))
	})
	var front []int
	for _, i := range order {
		if len(front) == 0 || plans[i].StepTime < plans[front[len(front)-1]].StepTime {
			front = append(front, i)
		}
	}
	return front
}

// at is where a plan's point is.
func (p *paretoPlot) at(i int) vg.Point {
	return vg.Point{X: p.x(p.Plans[i].PeakMemory()), Y: p.y(p.Plans[i].StepTime * float64(time.Second))}
}

func (p *paretoPlot) x(bytes int64) vg.Length {
	return p.frame.left + (p.frame.right-p.frame.left)*vg.Length(float64(bytes)/p.bytes.max)
}

func (p *paretoPlot) y(nanoseconds float64) vg.Length {
	return p.frame.bottom - (p.frame.bottom-p.frame.top)*vg.Length(nanoseconds/p.time.max)
}

// look is the colour of a schedule's plans and, as there are more schedules than
// colours, their shape.
func (p *paretoPlot) look(schedule string) (color.RGBA, mark) {
	i := slices.Index(p.schedules, schedule)
	return rankColor(i), disc + mark(i/colors)%marks
}

// legend lists the schedules and the lines.
func (p *paretoPlot) legend() []legendEntry {
	var entries []legendEntry
	for _, s := range p.schedules {
		color, mark := p.look(s)
		entries = append(entries, legendEntry{text: s, color: color, mark: mark, swatch: true})
	}
	entries = append(entries, legendEntry{text: "no plan is better in both (M microbatches, V stages per rank)", color: rgb(faint), line: true, swatch: true})
	if p.Capacity > 0 {
		text := "capacity " + units.FormatBytes(p.Capacity)
		if p.x(p.Capacity) > p.frame.right {
			return append(entries, legendEntry{text: text + ", right of the picture"})
		}
		entries = append(entries, legendEntry{text: text, color: rgb(alarm), line: true, dashes: dotted(), swatch: true})
	}
	return entries
}

// draw lays the picture out and writes it.
func (p *paretoPlot) draw(w io.Writer, format string) error {
	p.frame = chartFrame(70, 380)
	pic, legend, err := p.frame.picture(format, p.legend())
	if err != nil {
		return err
	}
	middle := (p.frame.left + p.frame.right) / 2
	pic.title(p.Title, p.frame)
	p.drawAxes(pic)
	if x := p.x(p.Capacity); p.Capacity > 0 && x <= p.frame.right {
		pic.stroke(rgb(alarm), 1.4, dotted(), vg.Point{X: x, Y: p.frame.top}, vg.Point{X: x, Y: p.frame.bottom})
	}
	p.drawFront(pic)
	for i := range slices.Backward(p.Plans) { // the best on top
		p.drawPoint(pic, i, 3)
	}
	for _, i := range p.front {
		p.drawPoint(pic, i, 4.5)
	}
	p.drawLabels(pic)
	pic.drawLegend(legend, middle, p.frame.bottom+42)
	return pic.writeTo(w)
}

// drawAxes draws both axes with faint lines across the frame.
func (p *paretoPlot) drawAxes(pic *picture) {
	for _, tick := range p.bytes.ticks() {
		x := p.x(int64(tick))
		pic.stroke(rgb(gridline), 0.5, nil, vg.Point{X: x, Y: p.frame.top}, vg.Point{X: x, Y: p.frame.bottom})
		pic.text(p.bytes.label(tick), x, p.frame.bottom+10, style{size: 9, align: 0.5, color: rgb(ink)})
	}
	for _, tick := range p.time.ticks() {
		y := p.y(tick)
		pic.stroke(rgb(gridline), 0.5, nil, vg.Point{X: p.frame.left, Y: y}, vg.Point{X: p.frame.right, Y: y})
		pic.text(p.time.label(tick), p.frame.left-6, y, style{size: 9, align: 1, color: rgb(ink)})
	}
	pic.stroke(rgb(faint), 0.6, nil, vg.Point{X: p.frame.left, Y: p.frame.top}, vg.Point{X: p.frame.left, Y: p.frame.bottom},
		vg.Point{X: p.frame.right, Y: p.frame.bottom})
	pic.text("peak memory of the fullest rank ("+p.bytes.unit.name+")", (p.frame.left+p.frame.right)/2, p.frame.bottom+23, style{size: 10, align: 0.5, color: rgb(ink)})
	pic.textUp("step time ("+p.time.unit.name+")", 18, (p.frame.top+p.frame.bottom)/2, style{size: 10, color: rgb(ink)})
}

// drawFront draws the border of what can be had: less time only for more memory.
func (p *paretoPlot) drawFront(pic *picture) {
	var line []vg.Point
	for n, i := range p.front {
		at := p.at(i)
		if n > 0 {
			line = append(line, vg.Point{X: at.X, Y: line[len(line)-1].Y})
		}
		line = append(line, at)
	}
	if len(line) > 1 {
		pic.stroke(rgb(faint), 1, nil, line...)
	}
}

// drawPoint draws a plan as a mark with a white rim.
func (p *paretoPlot) drawPoint(pic *picture, i int, radius vg.Length) {
	at := p.at(i)
	own, mark := p.look(p.Plans[i].Schedule)
	pic.mark(mark, color.White, at, radius+0.8)
	pic.mark(mark, own, at, radius)
}

// sizes are a plan's microbatches, and its stages per rank if there are several.
func sizes(p Plan) string {
	text := fmt.Sprintf("M=%d", p.Microbatches)
	if p.VirtualStages > 1 {
		text += fmt.Sprintf(" V=%d", p.VirtualStages)
	}
	return text
}

// drawLabels gives the sizes of the plans of the front, to the lower left of each, where
// there is no other plan; but not where a label would cover the one before.
func (p *paretoPlot) drawLabels(pic *picture) {
	const size, apart = 9, 12
	var last []vg.Point
	for _, i := range p.front {
		at := p.at(i)
		at.X, at.Y = at.X-5, at.Y+9
		covers := slices.ContainsFunc(last, func(q vg.Point) bool {
			return max(at.X-q.X, q.X-at.X) < 5*apart && max(at.Y-q.Y, q.Y-at.Y) < apart
		})
		if !covers {
			pic.text(sizes(p.Plans[i]), at.X, at.Y, style{size: size, align: 1, color: rgb(ink)})
			last = append(last, at)
		}
	}
}
