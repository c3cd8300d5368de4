package picture

import (
	"fmt"
	"slices"
	"strconv"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"psim/internal/units"
	"psim/reports/chart"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// manyRows is the number of rows from which on their labels are only numbers.
const manyRows = 17

// replicated reports whether labels of ranks name their replica too.
func (p *timelinePanel) replicated() bool {
	shape := p.Trace.Graph.Shape
	return shape.Replicas > 1 && shape.Ranks > 1
}

func (p *timelinePanel) rankName(rank int) string {
	name, replica := "rank "+strconv.Itoa(rank), " · replica "
	if len(p.bars) >= manyRows {
		name, replica = strconv.Itoa(rank), " · "
	}
	if p.replicated() {
		name += replica + strconv.Itoa(rank/p.Trace.Graph.Shape.Ranks)
	}
	return name
}

// A labelling says how the tasks of a lane are labelled: in the size in which the longest label
// fits a typical task, and in a smaller one where a task is too narrow for that.
type labelling struct {
	size      vg.Length // 0 for no labels
	width     vg.Length // of the longest label
	stages    bool      // labels name the stage
	durations bool      // a second line says how long the task took
}

// labelSizes are the sizes of labels, the largest first.
var labelSizes = [...]vg.Length{10, 9, 8, 7, 6, 5}

// labelling chooses how to label a lane of a panel, given the width of a nanosecond.
func (p *timelinePanel) labelling(lane int, nanosecond vg.Length) labelling {
	g := p.Trace.Graph
	l := labelling{stages: (p.tones.most > 1 || p.named) && !p.plain}
	durations, sizes := p.actions.durations(g, lane), labelSizes[:]
	if l.stages && p.tones.distinct() && len(durations) > 0 {
		// Tones distinguish the stages too, so that labels name them only if that needs no
		// small letters and leaves no forwards without labels.
		l = p.fit(l, lane, nanosecond*vg.Length(durations[0]), sizes[:2])
		l.stages = l.size > 0
	}
	if l.size == 0 {
		l = p.fit(l, lane, nanosecond*vg.Length(typical(durations)), sizes)
	}
	tasks := 0
	for r := range p.actions {
		tasks += len(p.actions[r][lane])
	}
	l.durations = tasks <= 40 && p.lane[lane] >= 22 && p.Unit == 0
	return l
}

// labelAlike labels the panels of one picture alike. If labels of one leave the stage out, others do
// too where tones distinguish it; and where none do, all labels name the stage.
func (t *timeline) labelAlike(nanosecond vg.Length) {
	for lane := range lanes {
		short := slices.ContainsFunc(t.panels, func(p *timelinePanel) bool {
			l := p.label[lane]
			return l.size > 0 && !l.stages
		})
		for _, p := range t.panels {
			if short && p.label[lane].stages && p.tones.distinct() {
				p.plain = true
				p.label[lane] = p.labelling(lane, nanosecond)
			}
		}
		long := slices.ContainsFunc(t.panels, func(p *timelinePanel) bool {
			l := p.label[lane]
			return l.size > 0 && l.stages
		})
		for _, p := range t.panels {
			if p.named = p.named || long && lane == workLane; long && !p.label[lane].stages && !p.plain {
				p.label[lane] = p.labelling(lane, nanosecond)
			}
		}
	}
}

// fit chooses the first of some sizes in which the longest label fits into the width of a
// task, if there is one.
func (p *timelinePanel) fit(l labelling, lane int, task vg.Length, sizes []vg.Length) labelling {
	g, longest := p.Trace.Graph, ""
	for r := range p.actions {
		for _, b := range p.actions[r][lane] {
			if s := l.text(g.Task(b.task)); len(s) > len(longest) {
				longest = s
			}
		}
	}
	for _, size := range sizes {
		width := chart.Text(size).Width(longest)
		if size <= 0.85*p.lane[lane] && width+1.5 <= task && !p.dense {
			l.size, l.width = size, width
			break
		}
	}
	return l
}

// text labels a task with its microbatch, in the notation 2F0 if labels name the stage, or
// with the chunk that it moves. A slice of a backward that is not joined to the first slice
// has its number too.
func (l labelling) text(t graph.Task) string {
	switch {
	case !numbered(t.Kind) || t.Kind.Compute() && t.Microbatch == graph.None:
		return ""
	case !t.Kind.Compute():
		return strconv.Itoa(int(t.Part))
	case l.stages && t.Part > 0:
		return t.String()
	case l.stages:
		return order.Action{Kind: t.Kind, Stage: t.Stage, Microbatch: t.Microbatch}.String()
	case t.Part > 0:
		return fmt.Sprintf("%d.%d", t.Microbatch, t.Part)
	}
	return strconv.Itoa(int(t.Microbatch))
}

// draw labels a block if it is large enough.
func (l labelling) draw(c canvas, t graph.Task, b block) {
	text, width := l.text(t), b.x1-b.x0
	bottom, top := c.edges(b)
	size := l.sizeIn(width, text)
	if text == "" || size == 0 || top-bottom < size*0.8 {
		return
	}
	fill := lookOf(b.bar.kind).tone(b.bar.tone)
	write := func(text string, y, size vg.Length) {
		s := chart.Text(size)
		s.Color, s.XAlign = chart.InkOn(fill), draw.XCenter
		x := (b.x0 + b.x1) / 2
		if b.bar.joined { // keep the lines between slices from running through the label
			half := s.Width(text)/2 + 1
			left, right := chart.Snap(x-half), chart.Snap(x+half)
			chart.Fill(c.Canvas, fill, chart.Rect(left, chart.Snap(y-size/2), right, chart.Snap(y+size/2)))
		}
		c.FillText(s, vg.Point{X: x, Y: y}, text)
	}
	const small = 6.5
	middle := (top + bottom) / 2
	duration := units.FormatDuration(b.bar.Duration())
	if l.durations && !b.bar.cut && top-bottom >= 22 && width >= chart.Text(small).Width(duration)+3 {
		write(duration, middle-6.5, small)
		middle += 4
	}
	write(text, middle, size)
}

// sizeIn returns the size in which a task of a width is labelled: that of the lane, or if the task
// is too narrow, the largest smaller size in which its own label fits; 0 if there is none, or if it is
// much smaller than that of others. Tasks of the same duration may differ by a pixel, and are labelled
// alike.
func (l labelling) sizeIn(width vg.Length, text string) vg.Length {
	const margin, least = 1 - 2*chart.Pixel, 0.6
	if l.size == 0 || width >= l.width+margin {
		return l.size
	}
	for _, size := range labelSizes {
		if size <= l.size && size >= least*l.size && width >= chart.Text(size).Width(text)+margin {
			return size
		}
	}
	return 0
}
