// Package picture draws one or two runs: timelines as pictures and as text, and memory over
// time. It also draws the plans of a search. Equal input gives equal bytes.
package picture

import (
	"errors"
	"io"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"psim/reports/chart"
	"psim/schedules/graph"
)

// The formats of pictures.
const (
	PNG = chart.PNG
	SVG = chart.SVG
	PDF = chart.PDF
)

// A Panel is one trace of a timeline.
type Panel struct {
	Trace *graph.Trace
	Label string // written above the panel; may be empty
	View  View
	// Unit is the time that counts as one unit in a trace whose times only show the order
	// of tasks: the axis is labelled in units then. It is 0 for an axis in seconds.
	Unit time.Duration
}

// maxTimelineRanks limits the ranks that a timeline shows, in all panels together.
const maxTimelineRanks = 64

// Timeline draws when every rank does what. The panels are one above the other on one time
// axis. Each has a row per rank, with a thick lane for its work and thin lanes for its
// messages and collectives. If tasks are too narrow to be seen one by one, columns show the
// shares of the kinds. If a trace knows when tasks were ready, the time until they start is
// shaded. An empty title is replaced by a description of the trace; if there are several panels,
// their labels then include the step times.
func Timeline(w io.Writer, format, title string, panels ...Panel) error {
	f, _, err := newTimeline(title, panels)
	if err != nil {
		return err
	}
	return f.Write(w, format)
}

// timeline plots panels one above the other.
type timeline struct{ panels []*timelinePanel }

// timelinePanel places the parts of a panel, measured from the top of the data
// downwards.
type timelinePanel struct {
	Panel
	panelBars
	actions rankBars // the bars, with slices joined
	rows    []int    // the ranks that are shown
	hidden  string   // says which ranks are not shown
	from    time.Duration
	end     time.Duration
	top     vg.Length        // of the label
	first   vg.Length        // top of the first row
	lane    [lanes]vg.Length // heights
	pitch   vg.Length        // from row to row
	point   time.Duration    // the narrowest task, or gap, that can be seen
	dense   bool             // typical tasks are narrower than that
	shared  [lanes]bool      // the lane is drawn as shares of time
	label   [lanes]labelling
	plain   bool // labels leave out the stage, as in another panel
	named   bool // labels name the stage, as in another panel
}

// newTimeline lays the picture out.
func newTimeline(title string, panels []Panel) (*chart.Figure, *timeline, error) {
	if len(panels) == 0 {
		return nil, nil, errors.New("no trace to draw")
	}
	title, panels = timelineTitle(title, panels)
	t := &timeline{}
	var from, end time.Duration
	for _, p := range panels {
		rows, hidden := p.View.rows(p.Trace.Graph, max(1, maxTimelineRanks/len(panels)))
		panel := &timelinePanel{Panel: p, rows: rows, hidden: hidden}
		from, panel.end = p.View.window(p.Trace.End())
		panel.from, panel.panelBars = from, collectBars(p.Trace, rows, from, panel.end)
		t.panels = append(t.panels, panel)
		end = max(end, panel.end)
	}
	if end <= from {
		return nil, nil, errors.New("the trace takes no time: there is nothing to draw")
	}
	height := t.place()
	f := chart.New(title, height)
	chart.Time(&f.X, "time", end-from, 10)
	f.X.Min, f.X.Max = float64(from), float64(end)
	if unit := panels[0].Unit; unit > 0 {
		chart.Numbers(&f.X, chart.Scale{
			Label: "time", High: float64(end), Intervals: 10, Unit: "units", UnitSize: float64(unit),
		})
	}
	t.nameRanks(&f.Y, height)
	width := f.DataWidth()
	for _, p := range t.panels {
		p.resolve(width, end-from)
	}
	t.labelAlike(width / vg.Length(end-from))
	f.Add(t)
	t.explain(f)
	return f, t, nil
}

// timelineTitle replaces an empty title. For a single trace it describes it. For several it
// says what they have in common, and adds their step times to the labels.
func timelineTitle(title string, panels []Panel) (string, []Panel) {
	switch {
	case title != "":
		return title, panels
	case len(panels) == 1:
		return graphTitle(panels[0].Trace), panels
	}
	labelled := slices.Clone(panels)
	for i, p := range panels {
		labelled[i].Label = join(p.Label, timeText(p.Trace))
	}
	return graphText(panels[0].Trace.Graph), labelled
}

// place decides where the panels go, and returns their total height.
func (t *timeline) place() vg.Length {
	rows := 0
	for _, p := range t.panels {
		rows += len(p.bars)
	}
	var y vg.Length
	for _, p := range t.panels {
		p.top = y
		if p.Label != "" {
			y += 16
		}
		p.first = y
		p.size(rows)
		y += vg.Length(len(p.bars))*p.pitch + 8
	}
	return chart.Snap(y - 4)
}

// resolve decides how detailed a panel is: whether the tasks that take most of the time are
// wide enough to be seen one by one, and how to label them.
func (p *timelinePanel) resolve(width vg.Length, span time.Duration) {
	const seen = 1 // the least width of a task or a gap that can be seen
	p.point = time.Duration(seen * float64(span) / float64(width))
	p.actions = p.bars.actions(p.Trace.Graph, p.point)
	task := typical(p.actions.durations(p.Trace.Graph, workLane))
	p.dense = task > 0 && task < p.point
	for lane := range p.label {
		p.shared[lane] = p.dense && (lane == workLane || p.crowded(lane))
		p.label[lane] = p.labelling(lane, width/vg.Length(span))
	}
}

// crowded reports whether some rank has more bars in a lane than can be seen one by one. The
// lane is drawn in the same way for all ranks, so that the rank with more bars does not look
// less busy.
func (p *timelinePanel) crowded(lane int) bool {
	const most = 500
	return slices.ContainsFunc(p.bars, func(row [lanes][]bar) bool { return len(row[lane]) > most })
}

// size chooses the heights of the lanes, given the number of rows in the
// picture.
func (p *timelinePanel) size(rows int) {
	const total, thin, gap = 470, 0.26, 0.24
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
	unit := min(26, max(2, total/(vg.Length(rows)*sum)))
	p.pitch = unit * gap
	if unit > 4 {
		p.pitch = chart.Snap(p.pitch)
	}
	for lane := range shares {
		p.lane[lane] = unit * shares[lane]
		if unit > 4 {
			p.lane[lane] = chart.Snap(p.lane[lane])
		}
		p.pitch += p.lane[lane]
	}
}

// nameRanks labels the rows on the vertical axis. It leaves out labels that would overlap.
func (t *timeline) nameRanks(a *plot.Axis, height vg.Length) {
	var ticks plot.ConstantTicks
	for _, p := range t.panels {
		size := min(10, max(6.5, p.pitch*0.9))
		a.Tick.Label.Font.Size = size
		every := 1
		for vg.Length(every)*p.pitch < size*1.15 {
			every *= 2
		}
		var middle vg.Length
		for _, h := range p.lane {
			middle += h / 2
		}
		for r := 0; r < len(p.bars); r += every {
			y := p.first + vg.Length(r)*p.pitch + middle
			ticks = append(ticks, plot.Tick{Value: float64(height - y), Label: p.rankName(p.rows[r])})
		}
		if len(p.bars) >= manyRows && a.Label.Text != "rank · replica" {
			a.Label.Text = "rank"
			if p.replicated() {
				a.Label.Text = "rank · replica"
			}
		}
	}
	a.Min, a.Max, a.Tick.Marker = 0, float64(height), ticks
	chart.NoLine(a)
}

// explain makes the legend.
func (t *timeline) explain(f *chart.Figure) {
	some := func(is func(*timelinePanel) bool) bool { return slices.ContainsFunc(t.panels, is) }
	for k := graph.Forward; k < graph.ReceiveForward; k++ {
		if some(func(p *timelinePanel) bool { return p.kinds[k] }) {
			f.Explain(lookOf(k).title, chart.Swatch{Color: lookOf(k).tone(0)})
		}
	}
	toned := slices.IndexFunc(t.panels, func(p *timelinePanel) bool { return p.tones.distinct() && !p.dense })
	if toned >= 0 {
		f.Explain(t.panels[toned].tones.legend(), nil)
	}
	if some(func(p *timelinePanel) bool { return computes(p.Trace.Graph) }) {
		f.Explain("not computing", chart.Swatch{Color: chart.RGB(idleFill)})
	}
	if some((*timelinePanel).launches) {
		f.Explain("ready, not started", chart.Swatch{Color: chart.RGB(launchFill)})
	}
	if some(func(p *timelinePanel) bool { return p.dense }) {
		f.Explain("columns show shares of time: single tasks are too narrow", nil)
	}
	f.Remark(t.panels[0].View.Notes)
	var hidden []string
	for _, p := range t.panels {
		if p.hidden != "" && !slices.Contains(hidden, p.hidden) {
			hidden = append(hidden, p.hidden)
			f.Explain(p.hidden, nil)
		}
	}
}
