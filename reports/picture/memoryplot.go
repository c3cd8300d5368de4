package picture

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"psim/internal/units"
	"psim/reports/chart"
	"psim/results"
	"psim/results/tracecsv"
)

// A MemoryFigure shows the memory of ranks over time.
type MemoryFigure struct {
	Title  string
	Curves []tracecsv.MemoryCurve
	// End is the step time: the time axis reaches at least to it.
	End time.Duration
	// Capacity is the memory of every rank in bytes, by rank; nil is
	// unlimited.
	Capacity []int64
	Margin   float64  // the fraction that was already subtracted from Capacity
	Notes    []string // remarks for the legend
}

// capacityText names the memory that a rank may use: its capacity less a margin.
func capacityText(capacity int64, margin float64) string {
	if margin == 0 {
		return "capacity " + units.FormatBytes(capacity)
	}
	whole := int64(float64(capacity) / (1 - margin))
	return fmt.Sprintf("%s: %s less a margin of %s",
		units.FormatBytes(capacity), units.FormatBytes(whole), units.FormatPercent(margin))
}

// NewMemoryFigure returns the figure of a run that has a trace.
func NewMemoryFigure(r results.Run) MemoryFigure {
	return MemoryFigure{
		Title: memoryTitle(r), Curves: tracecsv.MemoryCurves(r.Trace), End: r.Trace.End(),
		Capacity: r.Result.MemoryCapacities(), Margin: r.Result.MemoryMargin,
	}
}

func memoryTitle(r results.Run) string { return "Memory: " + runTitle(r) }

// maxMemoryLines limits the different curves that have a colour of their own.
const maxMemoryLines = 8

// extent returns where the curves end, and their peak.
func (m MemoryFigure) extent() (end time.Duration, peak int64) {
	end = m.End
	for _, c := range m.Curves {
		peak = max(peak, c.Peak())
		if n := len(c.Points); n > 0 {
			end = max(end, c.Points[n-1].At)
		}
	}
	return end, peak
}

// Drawable reports whether there is memory to draw, and time to draw it over.
func (m MemoryFigure) Drawable() bool {
	end, peak := m.extent()
	return peak > 0 && end > 0
}

// Memory draws the memory in use on every rank, with a line for each of up to eight
// different curves. If there are more, it names the curves with the highest, the median and
// the lowest peak, and draws the others grey. Dashed lines are the persistent memory, and
// dotted lines the capacity. Curves that change too often to be followed are drawn as envelopes,
// with a short part enlarged below.
func Memory(w io.Writer, format string, m MemoryFigure) error {
	if len(m.Curves) == 0 {
		return errors.New("no rank has a memory curve to draw")
	}
	end, peak := m.extent()
	if !m.Drawable() {
		return errors.New("the trace uses no memory: there is nothing to draw")
	}
	p := memoryPlot{MemoryFigure: m, end: end, capacities: m.capacities(peak)}
	p.lines, p.others = memoryLines(m.Curves)
	p.high = float64(slices.Max(append(p.capacities, peak)))
	f := p.draw()
	f.Remark(m.Notes)
	return f.Write(w, format)
}

// A memoryPlot is a figure of memory that is being drawn.
type memoryPlot struct {
	MemoryFigure
	end        time.Duration
	high       float64 // the highest level or capacity to show
	lines      []memoryLine
	others     bool // there are curves besides the lines
	capacities []int64
}

// figure makes the axes of the whole step.
func (p *memoryPlot) figure(height vg.Length) *chart.Figure {
	f := chart.New(p.Title, height)
	chart.Time(&f.X, "time", p.end, 10)
	chart.Bytes(&f.Y, chart.Scale{Label: "memory in use", High: p.high, Intervals: 5})
	f.Y.Max *= 1.08 // leave some space at the top
	return f
}

// draw draws every curve as a line, or if they change too often for that, as an envelope.
func (p *memoryPlot) draw() *chart.Figure {
	if slices.ContainsFunc(p.Curves, func(c tracecsv.MemoryCurve) bool { return len(c.Points) > maxChanges }) {
		return p.drawEnvelopes()
	}
	f := p.figure(220)
	p.add(f, drawSteps)
	p.explain(f)
	return f
}

// add adds the curves, each drawn by a function, and the levels of persistent memory and capacities.
func (p *memoryPlot) add(f *chart.Figure, curve func(tracecsv.MemoryCurve, draw.LineStyle, vg.Length) plot.Plotter) {
	addPersistent(f, p.lines)
	if p.others {
		for _, c := range p.Curves {
			f.Add(curve(c, chart.Stroke(chart.RGB(chart.Pale), 0.4), 3))
		}
	}
	for _, l := range slices.Backward(p.lines) {
		f.Add(curve(l.MemoryCurve, chart.Stroke(l.color, 1.4), chart.Pixel))
	}
	for _, c := range p.capacities {
		f.Add(across(f, c, chart.Dotted(chart.RGB(chart.Alarm), 1.4)))
	}
}

// capacities lists the capacities of the ranks, except those so high above the peak that
// the curves would be too flat to see.
func (m MemoryFigure) capacities(peak int64) []int64 {
	var list []int64
	for _, c := range m.Curves {
		if c.Rank < len(m.Capacity) && m.Capacity[c.Rank] > 0 && m.Capacity[c.Rank]/4 <= peak {
			list = append(list, m.Capacity[c.Rank])
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func drawSteps(c tracecsv.MemoryCurve, style draw.LineStyle, grain vg.Length) plot.Plotter {
	return memorySteps(c, style, grain)
}

func memorySteps(c tracecsv.MemoryCurve, style draw.LineStyle, grain vg.Length) chart.Steps {
	s := chart.Steps{XYs: plotter.XYs{{Y: float64(c.Persistent)}}, LineStyle: style, Grain: grain}
	for _, p := range c.Points {
		s.XYs = append(s.XYs, plotter.XY{X: float64(p.At), Y: float64(p.Bytes)})
	}
	return s
}

// across returns a horizontal line from edge to edge.
func across(f *chart.Figure, bytes int64, style draw.LineStyle) *plotter.Line {
	return chart.Line(style, plotter.XY{Y: float64(bytes)}, plotter.XY{X: f.X.Max, Y: float64(bytes)})
}

// addPersistent draws the level of the lines' persistent memory: once if it is the same for
// all lines, and otherwise in the colour of every line.
func addPersistent(f *chart.Figure, lines []memoryLine) {
	first := lines[0].Persistent
	if slices.ContainsFunc(lines, func(l memoryLine) bool { return l.Persistent != first }) {
		for _, l := range lines {
			if l.Persistent > 0 {
				f.Add(across(f, l.Persistent, chart.Dashed(l.color, 0.9)))
			}
		}
	} else if first > 0 {
		shared := across(f, first, chart.Dashed(chart.RGB(chart.Faint), 0.9))
		shared.FillColor = chart.RGB(chart.Shade)
		f.Add(shared)
	}
}

func (p *memoryPlot) explain(f *chart.Figure) {
	for _, l := range p.lines {
		f.Explain(l.name, chart.Line(chart.Stroke(l.color, 1.6)))
	}
	if p.others {
		f.Explain("other ranks", chart.Line(chart.Stroke(chart.RGB(chart.Pale), 1.6)))
	}
	if slices.ContainsFunc(p.lines, func(l memoryLine) bool { return l.Persistent > 0 }) {
		f.Explain("persistent", chart.Line(chart.Dashed(chart.RGB(chart.Faint), 1.6)))
	}
	for _, c := range p.capacities {
		f.Explain(capacityText(c, p.Margin), chart.Line(chart.Dotted(chart.RGB(chart.Alarm), 1.6)))
	}
	if len(p.capacities) == 0 && len(p.Capacity) > 0 {
		text := capacityText(slices.Min(p.Capacity), p.Margin)
		if slices.Max(p.Capacity) > slices.Min(p.Capacity) {
			text += " or more"
		}
		f.Explain(text+", above the picture", nil)
	}
}
