package reports

import (
	"slices"
	"time"

	"gonum.org/v1/plot/vg"
)

// shareColumn is the width of a column of a dense lane.
const shareColumn = vg.Length(3)

// draw puts the laid out timeline on a picture.
func (t *timeline) draw(p *picture) {
	p.title(t.title, t.frame)
	p.drawTimeAxis(t.frame, t.axis)
	for i := range t.panels {
		t.drawPanel(p, &t.panels[i])
	}
	p.drawLegend(t.legend, (t.frame.left+t.frame.right)/2, t.frame.bottom+42)
}

func (t *timeline) drawPanel(p *picture, panel *timelinePanel) {
	if panel.Label != "" {
		s := style{size: 10.5, bold: true, color: rgb(ink)}
		p.text(p.shortened(panel.Label, t.frame.right-t.frame.left, s), t.frame.left, panel.top+9, s)
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
	if panel.dense && (lane == workLane || len(bars) > 500) {
		const point = 1 // the least height that can be seen
		for _, b := range shares(bars, panel.end, x, shareColumn, point/float64(height)) {
			p.block(b, y, height)
		}
		return
	}
	for _, b := range bars {
		if x0, x1 := snap(x(panel.ready(b))), snap(x(b.Start)); x0 < x1 {
			p.rect(rgb(launchFill), x0, y, x1, y+height)
		}
	}
	for _, b := range single(bars, x) {
		p.block(b.apart(), y, height)
	}
	for _, b := range single(panel.actions[rank][lane], x) {
		panel.label[lane].draw(p, &panel.Trace.Graph.Tasks[b.bar.task], b.apart(), y, height)
	}
}

// ready is when the task of a bar could have started: its start, except where
// it is known to have been ready before. Only of what counts as dispatch.
func (p *timelinePanel) ready(b bar) time.Duration {
	if p.Trace.Ready == nil || laneOf(b.kind) != workLane {
		return b.Start
	}
	return min(b.Start, p.Trace.Ready[b.task])
}

// launches reports whether the time from ready to start can be seen anywhere.
func (p *timelinePanel) launches() bool {
	return !p.dense && slices.ContainsFunc(p.bars, func(lanes [lanes][]bar) bool {
		return slices.ContainsFunc(lanes[workLane], func(b bar) bool { return b.Start-p.ready(b) >= p.point })
	})
}

// apart is a block with a gap to the next one, if it is wide enough.
func (b block) apart() block {
	if b.x1-b.x0 >= 4 {
		b.x1 -= pixel
	}
	return b
}

// edges are the top and bottom of a block in a lane at y.
func (b block) edges(y, height vg.Length) (top, bottom vg.Length) {
	return y + height*vg.Length(1-b.top), y + height*vg.Length(1-b.bottom)
}

// block fills a block of a lane at y.
func (p *picture) block(b block, y, height vg.Length) {
	top, bottom := b.edges(y, height)
	p.rect(toneColor(b.bar.kind, b.bar.tone), b.x0, top, b.x1, bottom)
}
