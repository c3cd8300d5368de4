package reports

import (
	"strconv"
	"time"

	"gonum.org/v1/plot/vg"

	"psim/internal/units"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// manyRows is the number of rows from which their labels are numbers alone.
const manyRows = 17

// replicated reports whether ranks are told apart by their replica too.
func (p *timelinePanel) replicated() bool {
	shape := p.Trace.Graph.Shape
	return shape.Replicas > 1 && shape.Ranks > 1
}

// rankName is the label of a row.
func (p *timelinePanel) rankName(rank int) string {
	name, replica := strconv.Itoa(rank), ""
	if p.replicated() {
		replica = strconv.Itoa(rank / p.Trace.Graph.Shape.Ranks)
	}
	switch many := len(p.bars) >= manyRows; {
	case many && replica != "":
		return name + " · " + replica
	case many:
		return name
	case replica != "":
		return "rank " + name + " · replica " + replica
	}
	return "rank " + name
}

// labelWidth is the room that the labels of the rows need.
func (t *timeline) labelWidth() vg.Length {
	var width vg.Length
	for i := range t.panels {
		p := &t.panels[i]
		n := len(p.bars)
		w := t.typeface.width(p.rankName(n-1), style{size: 10})
		if n >= manyRows {
			w += 16 // for the word rank
		}
		width = max(width, w)
	}
	return width + 6
}

// drawRankNames labels the rows, leaving out what would overlap.
func (t *timeline) drawRankNames(p *picture, panel *timelinePanel) {
	n := len(panel.bars)
	size := min(10, max(6.5, panel.pitch*0.9))
	every := 1
	for vg.Length(every)*panel.pitch < size*1.15 {
		every *= 2
	}
	var height vg.Length
	for _, h := range panel.lane {
		height += h
	}
	for r := 0; r < n; r += every {
		y := panel.first + vg.Length(r)*panel.pitch + height/2
		p.text(panel.rankName(r), t.frame.left-6, y, style{size: size, align: 1, color: rgb(ink)})
	}
	if n >= manyRows {
		word := "rank"
		if panel.replicated() {
			word = "rank · replica"
		}
		p.textUp(word, 10, panel.first+vg.Length(n)*panel.pitch/2, style{size: 10, color: rgb(ink)})
	}
}

// labelling says how the tasks of a lane are labelled: all in one size, that
// in which the longest label fits a typical task.
type labelling struct {
	size      vg.Length // 0 is not at all
	width     vg.Length // of the longest label
	stages    bool      // labels name the stage
	durations bool      // a second line says how long the task took
}

// labelling chooses how to label a lane of a panel.
func (t *timeline) labelling(p *timelinePanel, lane int) labelling {
	g := p.Trace.Graph
	l := labelling{stages: manyStages(g)}
	sizes := []vg.Length{10, 9, 8, 7, 6, 5}
	if l.stages && p.tones != nil {
		// Tones tell the stages too: rather no stage than small letters, or
		// forwards without labels.
		l = t.fit(l, p, lane, p.actions.shortest(g, lane), sizes[:2])
		l.stages = l.size > 0
	}
	if l.size == 0 {
		l = t.fit(l, p, lane, p.actions.typical(g, lane), sizes)
	}
	tasks := 0
	for r := range p.actions {
		tasks += len(p.actions[r][lane])
	}
	l.durations = tasks <= 40 && p.lane[lane] >= 22 && p.Unit == 0
	return l
}

// fit sets the first of some sizes in which the longest label fits a task of that
// length, if one does.
func (t *timeline) fit(l labelling, p *timelinePanel, lane int, task time.Duration, sizes []vg.Length) labelling {
	g, longest := p.Trace.Graph, ""
	for r := range p.actions {
		for _, b := range p.actions[r][lane] {
			if s := l.text(&g.Tasks[b.task]); len(s) > len(longest) {
				longest = s
			}
		}
	}
	room := (t.frame.right - t.frame.left) * vg.Length(float64(task)/t.axis.max)
	for _, size := range sizes {
		width := t.typeface.width(longest, style{size: size})
		if size <= 0.85*p.lane[lane] && width+1.5 <= room && !p.dense {
			l.size, l.width = size, width
			break
		}
	}
	return l
}

// manyStages reports whether a rank holds several stages.
func manyStages(g *graph.Graph) bool {
	held := map[int32]int32{}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if !t.Kind.Compute() {
			continue
		}
		if stage, ok := held[t.Rank]; ok && stage != t.Stage {
			return true
		}
		held[t.Rank] = t.Stage
	}
	return false
}

// text is the label of a task: its microbatch, or in the notation 2F0 where
// the stage must be told, or the chunk that it moves. A slice of a backward that
// stands apart from the first has its number too.
func (l labelling) text(t *graph.Task) string {
	switch {
	case t.Kind.Compute() && t.Microbatch == graph.None:
		return ""
	case t.Kind.Compute() && t.Part > 0 && l.stages:
		return t.String()
	case t.Kind.Compute() && t.Part > 0:
		return strconv.Itoa(int(t.Microbatch)) + "." + strconv.Itoa(int(t.Part))
	case t.Kind.Compute() && l.stages:
		return order.Action{Kind: t.Kind, Stage: t.Stage, Microbatch: t.Microbatch}.String()
	case t.Kind.Compute():
		return strconv.Itoa(int(t.Microbatch))
	case numbered(t.Kind):
		return strconv.Itoa(int(t.Part))
	}
	return ""
}

// draw labels a block of a lane at y, if there is room.
func (l labelling) draw(p *picture, t *graph.Task, b block, y, height vg.Length) {
	text, room := l.text(t), b.x1-b.x0
	top, bottom := b.edges(y, height)
	if l.size == 0 || text == "" || room < l.width+1 || bottom-top < l.size*0.8 {
		return
	}
	fill := toneColor(b.bar.kind, b.bar.tone)
	write := func(text string, y, size vg.Length) {
		s := style{size: size, align: 0.5, color: inkOn(fill)}
		x := (b.x0 + b.x1) / 2
		if b.bar.joined { // no line between slices runs through the label
			half := p.width(text, s)/2 + 1
			p.rect(fill, snap(x-half), snap(y-size/2), snap(x+half), snap(y+size/2))
		}
		p.text(text, x, y, s)
	}
	const small = 6.5
	middle := (top + bottom) / 2
	duration := units.FormatDuration(b.bar.Duration())
	if l.durations && bottom-top >= 22 && room >= p.width(duration, style{size: small})+3 {
		write(duration, middle+6.5, small)
		middle -= 4
	}
	write(text, middle, l.size)
}
