package reports

import (
	"strconv"
	"time"

	"gonum.org/v1/plot/vg"

	"psim/internal/units"
	"psim/schedules"
)

// shareColumn is the width of a column of a dense lane.
const shareColumn = vg.Length(3)

// draw puts the laid out timeline on a picture.
func (t *timeline) draw(p *picture) {
	p.text(t.title, (t.frame.left+t.frame.right)/2, 17, style{size: 12, align: 0.5, bold: true, color: rgb(ink)})
	p.drawTimeAxis(t.frame, t.axis)
	for i := range t.panels {
		t.drawPanel(p, &t.panels[i])
	}
	p.drawLegend(t.legend, (t.frame.left+t.frame.right)/2, t.frame.bottom+42)
}

func (t *timeline) drawPanel(p *picture, panel *timelinePanel) {
	if panel.Label != "" {
		p.text(panel.Label, t.frame.left, panel.top+9, style{size: 10.5, bold: true, color: rgb(ink)})
	}
	for r := range panel.bars {
		y := panel.first + vg.Length(r)*panel.pitch
		for lane, height := range panel.lane {
			if height > 0 {
				t.drawLane(p, panel, r, lane, y)
			}
			y += height
		}
	}
	t.drawRankNames(p, panel)
}

// drawLane draws a lane of a rank at a height.
func (t *timeline) drawLane(p *picture, panel *timelinePanel, rank, lane int, y vg.Length) {
	x := func(at time.Duration) vg.Length { return t.frame.x(t.axis, at) }
	height, background := panel.lane[lane], rgb(idleFill)
	if lane != workLane {
		background = rgb(laneFill)
	}
	p.rect(background, snap(x(0)), y, snap(x(panel.end)), y+height)
	bars := panel.bars[rank][lane]
	var blocks []block
	if panel.dense && (lane == workLane || len(bars) > 500) {
		blocks = shares(bars, 0, panel.end, x, shareColumn)
	} else {
		blocks = single(bars, x)
	}
	for _, b := range blocks {
		right := b.x1
		if b.task != schedules.None && b.x1-b.x0 >= 4 {
			right -= pixel // keeps neighbours apart
		}
		top, bottom := y+height*vg.Length(1-b.top), y+height*vg.Length(1-b.bottom)
		p.rect(kindColor(b.kind), b.x0, top, right, bottom)
		if b.task != schedules.None && lane == workLane {
			panel.label.draw(p, panel.Trace, b, b.x0, right, top, bottom)
		}
	}
}

// drawRankNames labels the rows, leaving out what would overlap.
func (t *timeline) drawRankNames(p *picture, panel *timelinePanel) {
	n := len(panel.bars)
	size := min(10, max(6.5, panel.pitch*0.9))
	every := 1
	for vg.Length(every)*panel.pitch < size*1.15 {
		every *= 2
	}
	middle := (panel.pitch - panel.pitch*0.1) / 2
	if panel.lane[workLane] > 0 {
		middle = panel.lane[workLane] / 2
	}
	for r := 0; r < n; r += every {
		y := panel.first + vg.Length(r)*panel.pitch + middle
		p.text(rankName(r, n), t.frame.left-6, y, style{size: size, align: 1, color: rgb(ink)})
	}
	if n > 16 {
		y := panel.first + vg.Length(n)*panel.pitch/2
		p.textUp("rank", 10, y, style{size: 10, color: rgb(ink)})
	}
}

// labelling says how the tasks of a panel are labelled: all in one size, that
// in which the longest label fits half of them.
type labelling struct {
	size      vg.Length // 0 is not at all
	width     vg.Length // of the longest label
	stages    bool      // labels name the stage
	durations bool      // a second line says how long the task took
}

// labelling chooses how to label a panel.
func (t *timeline) labelling(p *timelinePanel) labelling {
	l := labelling{stages: manyStages(p.Trace.Graph)}
	var tasks int
	for r := range p.bars {
		tasks += len(p.bars[r][workLane])
	}
	longest := ""
	for i := range p.Trace.Graph.Tasks {
		if s := l.text(&p.Trace.Graph.Tasks[i]); len(s) > len(longest) {
			longest = s
		}
	}
	room := (t.frame.right - t.frame.left) * vg.Length(float64(p.medianDuration(workLane))/t.axis.max)
	for _, size := range []vg.Length{10, 9, 8, 7, 6, 5} {
		width := t.typeface.width(longest, style{size: size})
		if size <= 0.85*p.lane[workLane] && width+1.5 <= room && !p.dense {
			l.size, l.width = size, width
			break
		}
	}
	l.durations = tasks <= 40 && p.lane[workLane] >= 22
	return l
}

// manyStages reports whether a rank holds several stages.
func manyStages(g *schedules.Graph) bool {
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
// the stage must be told.
func (l labelling) text(t *schedules.Task) string {
	switch {
	case !t.Kind.Compute() || t.Microbatch == schedules.None:
		return ""
	case l.stages:
		return schedules.Action{Kind: t.Kind, Stage: t.Stage, Microbatch: t.Microbatch}.String()
	}
	return strconv.Itoa(int(t.Microbatch))
}

// draw labels a block if there is room.
func (l labelling) draw(p *picture, t *schedules.Trace, b block, left, right, top, bottom vg.Length) {
	task := &t.Graph.Tasks[b.task]
	text := l.text(task)
	if l.size == 0 || text == "" || right-left < l.width+1 || bottom-top < l.size*0.8 {
		return
	}
	s := style{size: l.size, align: 0.5, color: inkOn(kindColor(b.kind))}
	x, y := (left+right)/2, (top+bottom)/2
	small := style{size: 6.5, align: 0.5, color: s.color}
	duration := units.FormatDuration(t.Spans[b.task].Duration())
	if l.durations && bottom-top >= 22 && right-left >= p.width(duration, small)+3 {
		p.text(duration, x, y+6.5, small)
		y -= 4
	}
	p.text(text, x, y, s)
}
