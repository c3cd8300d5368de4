package figures

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"psim/reports/chart"
	"psim/results"
)

// A value is a number of a result. Its standard deviation is 0 if it is not known, and so are the ends of the
// interval of a prediction.
type value struct{ mean, deviation, low, high float64 }

// whisker returns the ends of the value's whisker, 0 without one.
func (v value) whisker() (low, high float64) {
	if v.high == 0 && v.deviation > 0 {
		return v.mean - v.deviation, v.mean + v.deviation
	}
	return v.low, v.high
}

// valueOf finds a number of a result.
type valueOf func(*Item) (value, error)

// whiskers are what the whiskers of a figure stand for.
type whiskers struct {
	deviates bool
	coverage float64 // of the intervals of predictions
}

// add takes in the whisker of a value.
func (w *whiskers) add(v value, of *Item) {
	w.deviates = w.deviates || v.deviation > 0
	if v.high > 0 {
		w.coverage = of.Run.Result.Interval.Coverage
	}
}

// explain says in the legend what the whiskers stand for.
func (w whiskers) explain(f *chart.Figure, over string) {
	if w.deviates {
		f.Explain("whiskers: ± a standard deviation of the "+over, nil)
	}
	if w.coverage > 0 {
		f.Explain(fmt.Sprintf("whiskers: where %.0f %% of measured steps lie", 100*w.coverage), nil)
	}
}

// A barChart has a bar for every result. A prediction stands next to the measurement of
// the same experiment.
type barChart struct {
	title string
	quantity
	groups []group
	values map[*Item]value
	// line returns the height that a bar would have in the ideal case, and whether it is
	// known. It is nil if there is no ideal to draw.
	line     func(*Item) (float64, bool)
	lineText string // explains the line in the legend
	level    bool   // the line is one horizontal line across the figure
	notes    []string
	over     string // what the standard deviations are taken over; "" for the steps
}

// look returns how the bars of a kind of result are filled.
func look(kind string) chart.Paint {
	if kind == results.Measured {
		return chart.Paint{Color: chart.Color(1), Hatch: chart.Rising}
	}
	return chart.Paint{Color: chart.Color(0)}
}

// newBars makes a chart of a number of every result.
func newBars(what string, r Request, q quantity, of valueOf) (barChart, error) {
	b := barChart{
		title: title(what, r.Items), quantity: q,
		groups: grouped(r.Items), notes: r.Notes, values: map[*Item]value{},
	}
	visible := false
	for _, g := range b.groups {
		for _, item := range g.items() {
			v, err := of(item)
			if err != nil {
				return b, err
			}
			b.values[item] = v
			visible = visible || v.mean != 0
		}
	}
	if !visible {
		return b, Nothing{errors.New(what + " is 0 everywhere, so there is nothing to draw")}
	}
	return b, nil
}

// hasBothKinds reports whether some results were predicted and some measured.
func hasBothKinds(groups []group) bool {
	return slices.ContainsFunc(groups, func(g group) bool { return g.predicted != nil }) &&
		slices.ContainsFunc(groups, func(g group) bool { return g.measured != nil })
}

// place returns the position and the width of the bar of a kind of result in group i.
func place(groups []group, i int, kind string) (x, width float64) {
	switch {
	case !hasBothKinds(groups):
		return float64(i), 0.6
	case kind == results.Measured:
		return float64(i) + 0.2, 0.38
	}
	return float64(i) - 0.2, 0.38
}

// figure lays the bars out.
func (b barChart) figure() *chart.Figure {
	const height = 210
	f := chart.New(b.title, height)
	var bars chart.Bars
	var shown whiskers
	least, most := 0.0, 0.0
	for i, g := range b.groups {
		for _, item := range g.items() {
			v := b.values[item]
			x, width := place(b.groups, i, item.Run.Result.Kind)
			low, high := v.whisker()
			bars = append(bars, chart.Bar{
				X: x, Width: width, To: v.mean * b.scale, Low: low * b.scale, High: high * b.scale,
				Paint: look(item.Run.Result.Kind), Text: b.text(v.mean),
			})
			least, most = min(least, v.mean), max(most, v.mean, high)
			shown.add(v, item)
		}
	}
	lines := b.lines()
	for _, l := range lines {
		for _, p := range l.XYs {
			most = max(most, p.Y/b.scale)
		}
	}
	b.axis(&f.Y, b.label, most*b.scale)
	f.Y.Min, f.Y.Max = least*b.scale*1.08, most*b.scale*1.12
	f.Columns("", labels(b.groups))
	f.Add(bars)
	explainKinds(f, b.groups)
	b.addLines(f, lines)
	f.Add(chart.BarTexts(bars))
	shown.explain(f, cmp.Or(b.over, "steps"))
	f.Remark(b.notes)
	return f
}

// addLines draws the ideal values.
func (b barChart) addLines(f *chart.Figure, lines []*plotter.Line) {
	if len(lines) > 0 {
		f.Explain(b.lineText, lines[0])
	}
	for _, l := range lines {
		if b.level {
			l.XYs = plotter.XYs{point(f.X.Min, l.XYs[0].Y), point(f.X.Max, l.XYs[0].Y)}
			f.Add(l)
			return
		}
		dot := draw.GlyphStyle{Color: chart.RGB(chart.Ink), Radius: 2, Shape: chart.Mark{Shape: draw.CircleGlyph{}}}
		f.Add(l, &plotter.Scatter{XYs: l.XYs, GlyphStyle: dot})
	}
}

// explainKinds explains in the legend how predictions and measurements look, if there are
// both.
func explainKinds(f *chart.Figure, groups []group) {
	if hasBothKinds(groups) {
		f.Explain(results.Predicted, look(results.Predicted))
		f.Explain(results.Measured, look(results.Measured))
	}
}

// lines connects the ideal values, with a line for each experiment and kind of result.
func (b barChart) lines() (list []*plotter.Line) {
	if b.line == nil {
		return nil
	}
	at := map[string]int{}
	for i, g := range b.groups {
		for _, item := range g.items() {
			ideal, known := b.line(item)
			if !known {
				continue
			}
			key := item.experiment() + "\n" + item.Run.Result.Kind
			if _, seen := at[key]; !seen {
				at[key] = len(list)
				list = append(list, chart.Line(chart.Dashed(chart.RGB(chart.Ink), 1)))
			}
			x, _ := place(b.groups, i, item.Run.Result.Kind)
			l := list[at[key]]
			l.XYs = append(l.XYs, plotter.XY{X: x, Y: ideal * b.scale})
		}
	}
	return list
}

// picture draws the bars.
func (b barChart) picture() Picture {
	return func(w io.Writer, format string) error { return b.figure().Write(w, format) }
}

func labels(groups []group) (names []string) {
	for _, g := range groups {
		names = append(names, g.label)
	}
	return names
}
