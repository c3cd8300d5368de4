package picture

import (
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"psim/reports/chart"
)

// shareColumn is the width of a column of a dense lane.
const shareColumn = vg.Length(1.5)

// Plot draws the panels.
func (t *timeline) Plot(c draw.Canvas, p *plot.Plot) {
	x := func(at time.Duration) vg.Length { return c.X(p.X.Norm(float64(at))) }
	for _, panel := range t.panels {
		if panel.Label != "" {
			s := chart.Bold(9.5)
			at := vg.Point{X: c.Min.X, Y: c.Max.Y - panel.top - 8}
			c.FillText(s, at, chart.Shorten(panel.Label, s, c.Max.X-c.Min.X))
		}
		for r := range panel.bars {
			y := c.Max.Y - panel.first - vg.Length(r)*panel.pitch
			for lane, height := range panel.lane {
				if height > 0 {
					panel.drawLane(canvas{c, x, y, height}, r, lane)
				}
				y -= height
			}
		}
	}
}

// A canvas draws in the area of a lane.
type canvas struct {
	draw.Canvas
	x           func(time.Duration) vg.Length
	top, height vg.Length
}

func (c canvas) fill(fill color.Color, x0, x1 vg.Length) {
	chart.Fill(c.Canvas, fill, chart.Rect(x0, c.top-c.height, x1, c.top))
}

func (p *timelinePanel) drawLane(c canvas, rank, lane int) {
	background := chart.RGB(idleFill)
	if lane != workLane {
		background = chart.RGB(chart.Shade)
	}
	c.fill(background, chart.Snap(c.x(p.from)), chart.Snap(c.x(p.end)))
	bars := p.bars[rank][lane]
	if p.shared[lane] {
		const point = 0.5 // the least height that can be seen
		columns := shareColumns{p.from, p.end, c.x, shareColumn, point / float64(c.height)}
		for _, b := range columns.blocks(bars) {
			c.block(b)
		}
		return
	}
	for _, b := range bars {
		if x0, x1 := chart.Snap(c.x(max(p.from, p.ready(b)))), chart.Snap(c.x(b.Start)); x0 < x1 {
			c.fill(chart.RGB(launchFill), x0, x1)
		}
	}
	for _, b := range blocksOf(bars, c.x) {
		c.block(b.withGap())
	}
	for _, b := range blocksOf(p.actions[rank][lane], c.x) {
		p.label[lane].draw(c, p.Trace.Graph.Task(b.bar.task), b.withGap())
	}
}

// ready returns when the task of a bar could have started: when it was ready, if it is work
// and the trace knows that, and otherwise when it started.
func (p *timelinePanel) ready(b bar) time.Duration {
	if !p.Trace.KnowsReady() || laneOf(b.kind) != workLane {
		return b.Start
	}
	return min(b.Start, p.Trace.ReadyAt(b.task))
}

// launches reports whether the time from ready to start is visible for any task.
func (p *timelinePanel) launches() bool {
	return !p.dense && slices.ContainsFunc(p.bars, func(lanes [lanes][]bar) bool {
		return slices.ContainsFunc(lanes[workLane], func(b bar) bool { return b.Start-p.ready(b) >= p.point })
	})
}

// withGap leaves a gap to the next block if this one is wide enough.
func (b block) withGap() block {
	if b.x1-b.x0 >= 3 {
		b.x1 -= 2 * chart.Pixel
	}
	return b
}

func (c canvas) edges(b block) (bottom, top vg.Length) {
	low := c.top - c.height
	return low + c.height*vg.Length(b.bottom), low + c.height*vg.Length(b.top)
}

func (c canvas) block(b block) {
	bottom, top := c.edges(b)
	chart.Fill(c.Canvas, lookOf(b.bar.kind).tone(b.bar.tone), chart.Rect(b.x0, bottom, b.x1, top))
}
