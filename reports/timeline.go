package reports

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"gonum.org/v1/plot/vg"

	"psim/schedules/graph"
)

// A Panel is one trace of a timeline.
type Panel struct {
	Trace *graph.Trace
	Label string // stands above the panel; may be empty
	// Unit, if not 0, is the length of time that counts as one unit where only
	// the order matters: the axis has no seconds then.
	Unit time.Duration
}

// maxTimelineRanks is how many ranks a timeline shows, over all panels.
const maxTimelineRanks = 512

// Timeline draws when every rank does what: the panels one above the other on
// one time axis, in each a row per rank with a thick lane for its work and
// thin ones for its messages and collectives. Where tasks are too narrow to be
// seen one by one, columns show the shares of the kinds. Where a trace knows
// when tasks were ready, the time until they start is shaded. Format is PNG or SVG.
// An empty title is replaced by the Title of the trace; where there are several
// panels, their labels then tell the step times.
func Timeline(w io.Writer, format, title string, panels ...Panel) error {
	t, err := newTimeline(title, panels)
	if err != nil {
		return err
	}
	p, err := newPicture(format, t.width, t.height, t.typeface)
	if err != nil {
		return err
	}
	t.draw(p)
	return p.writeTo(w)
}

// timeline is the layout of a Timeline.
type timeline struct {
	typeface
	title         string
	width, height vg.Length
	frame         frame
	axis          axis
	panels        []timelinePanel
	legend        [][]legendEntry
}

type timelinePanel struct {
	Panel
	panelBars
	actions rankBars // the bars, slices joined
	hidden  int      // ranks that are not shown
	end     time.Duration
	top     vg.Length // of the label
	first   vg.Length // top of the first row
	lane    [lanes]vg.Length
	pitch   vg.Length     // from row to row
	point   time.Duration // what a point of width stands for
	dense   bool
	label   [lanes]labelling
}

// newTimeline lays the picture out.
func newTimeline(title string, panels []Panel) (*timeline, error) {
	if len(panels) == 0 {
		return nil, errors.New("there is no trace to draw")
	}
	t := &timeline{typeface: sans(), title: title, width: 900}
	if title == "" && len(panels) == 1 {
		t.title = Title(panels[0].Trace, 1)
	}
	if title == "" && len(panels) > 1 {
		g := panels[0].Trace.Graph
		t.title = join(g.Name, sizeText(g))
		panels = slices.Clone(panels)
		for i, p := range panels {
			panels[i].Label = join(p.Label, timeText(p.Trace))
		}
	}
	var end time.Duration
	for _, p := range panels {
		ranks := min(p.Trace.Graph.Ranks(), maxTimelineRanks/len(panels))
		t.panels = append(t.panels, timelinePanel{
			Panel: p, panelBars: collectBars(p.Trace, ranks),
			hidden: p.Trace.Graph.Ranks() - ranks, end: p.Trace.End(),
		})
		end = max(end, p.Trace.End())
	}
	if end <= 0 {
		return nil, errors.New("the trace takes no time: there is nothing to draw")
	}
	t.axis = timeAxis(end, 10)
	if unit := panels[0].Unit; unit > 0 {
		t.axis = newAxis(float64(end), []axisUnit{{"units", float64(unit), 0}}, 10)
	}
	t.place()
	return t, nil
}

// place decides where everything goes.
func (t *timeline) place() {
	const right, titleHeight = 20, 34
	t.frame = frame{left: t.labelWidth() + 14, right: t.width - right, top: titleHeight}
	y := t.frame.top
	for i := range t.panels {
		p := &t.panels[i]
		p.top = y
		if p.Label != "" {
			y += 18
		}
		p.first = y
		p.size(t.rows())
		y += vg.Length(len(p.bars))*p.pitch + 8
		t.resolve(p)
	}
	t.frame.bottom = y - 4
	t.legend = wrapLegend(t.legendEntries(), t.frame.right-t.frame.left, t.typeface)
	t.height = t.frame.bottom + 44 + vg.Length(len(t.legend))*legendLine
}

// resolve decides what of a panel can be told apart: whether the tasks that
// take most of the time are wide enough to be seen, and how to label them.
func (t *timeline) resolve(p *timelinePanel) {
	const seen = 1 // the least width of a task, and of a gap
	p.point = time.Duration(t.axis.max / float64(t.frame.right-t.frame.left))
	p.actions = p.bars.actions(p.Trace.Graph, seen*p.point)
	typical := p.actions.typical(p.Trace.Graph, workLane)
	p.dense = typical > 0 && typical < seen*p.point
	for lane := range p.label {
		p.label[lane] = t.labelling(p, lane)
	}
}

// rows is the number of rows of all panels.
func (t *timeline) rows() int {
	n := 0
	for i := range t.panels {
		n += len(t.panels[i].bars)
	}
	return n
}

// size chooses the heights of the lanes, given the number of rows in the
// picture.
func (p *timelinePanel) size(rows int) {
	const total, thin, gap = 640, 0.26, 0.24
	shares := [lanes]vg.Length{1, thin, thin}
	sum := vg.Length(gap)
	for lane := range shares {
		if !p.used[lane] {
			shares[lane] = 0
		}
		if lane != workLane && !p.used[workLane] {
			shares[lane] *= 2
		}
		sum += shares[lane]
	}
	unit := min(28, max(2, total/(vg.Length(rows)*sum)))
	p.pitch = unit * gap
	if unit > 4 {
		p.pitch = snap(p.pitch)
	}
	for lane := range shares {
		p.lane[lane] = unit * shares[lane]
		if unit > 4 {
			p.lane[lane] = snap(p.lane[lane])
		}
		p.pitch += p.lane[lane]
	}
}

// legendEntries lists what is in the picture.
func (t *timeline) legendEntries() []legendEntry {
	var entries []legendEntry
	hidden, dense, computing := 0, false, false
	for i := range t.panels {
		p := &t.panels[i]
		hidden, dense, computing = hidden+p.hidden, dense || p.dense, computing || computes(p.Trace.Graph)
	}
	for k := graph.Forward; k <= graph.Optimizer; k++ {
		if slices.ContainsFunc(t.panels, func(p timelinePanel) bool { return p.kinds[k] }) {
			entries = append(entries, legendEntry{text: kindTitle(k), color: kindColor(k), swatch: true})
		}
	}
	if i := slices.IndexFunc(t.panels, func(p timelinePanel) bool { return p.tones != nil && !p.dense }); i >= 0 {
		entries = append(entries, legendEntry{text: t.panels[i].tones.legend()})
	}
	if computing {
		entries = append(entries, legendEntry{text: "not computing", color: rgb(idleFill), swatch: true})
	}
	if slices.ContainsFunc(t.panels, func(p timelinePanel) bool { return p.launches() }) {
		entries = append(entries, legendEntry{text: "ready, not started", color: rgb(launchFill), swatch: true})
	}
	if dense {
		entries = append(entries, legendEntry{text: "columns show shares of time: single tasks are too narrow"})
	}
	if hidden > 0 {
		entries = append(entries, legendEntry{text: fmt.Sprintf("%d more ranks are not shown", hidden)})
	}
	return entries
}
