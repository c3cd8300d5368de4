package figures

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"psim/reports/chart"
	"psim/results"
)

// A layer is a part of a stack.
type layer struct {
	name string
	look chart.Paint
	of   func(*Item) float64
}

// A stackChart has a stack of layers for every result.
type stackChart struct {
	title string
	quantity
	groups []group
	layers []layer
	total  valueOf
	limits []float64 // drawn as dotted lines
	limit  string    // explains the limits in the legend
	notes  []string
}

// splitTime draws the parts of a step's time, averaged over the ranks.
func splitTime(r Request) (Picture, error) {
	for i := range r.Items {
		if !r.Items[i].Run.Result.HasBreakdown() {
			return nil, fmt.Errorf("%s: says how long a step takes, but not what it is made of; "+
				"draw its time with psim plot time", r.Items[i].named())
		}
	}
	mean := func(of func(results.RankResult) float64) func(*Item) float64 {
		return func(i *Item) float64 {
			sum := 0.0
			for _, rank := range i.Run.Result.Ranks {
				sum += of(rank)
			}
			return sum / float64(len(i.Run.Result.Ranks))
		}
	}
	s := stackChart{
		title: title("what a step is made of", r.Items), notes: r.Notes,
		quantity: seconds("time of a step, averaged over the ranks"), groups: grouped(r.Items),
		layers: []layer{
			{
				name: "computation", look: chart.Paint{Color: chart.Color(0)},
				of: mean(func(r results.RankResult) float64 { return r.Compute }),
			},
			{
				name: "exposed communication", look: chart.Paint{Color: chart.Color(1), Hatch: chart.Rising},
				of: mean(func(r results.RankResult) float64 { return r.ExposedCommunication }),
			},
			{
				name: "optimizer", look: chart.Paint{Color: chart.Color(2), Hatch: chart.Falling},
				of: mean(func(r results.RankResult) float64 { return r.Optimizer }),
			},
			{
				name: "idle", look: chart.Paint{Color: chart.RGB(chart.Grid)},
				of: mean(func(r results.RankResult) float64 { return r.Idle }),
			},
		},
		total: func(i *Item) (value, error) { return timeOf(i.Run.Result), nil },
	}
	return s.picture()
}

// picture draws the stacks.
func (s stackChart) picture() (Picture, error) {
	visible := slices.ContainsFunc(s.groups, func(g group) bool {
		return slices.ContainsFunc(g.items(), func(i *Item) bool {
			return slices.ContainsFunc(s.layers, func(l layer) bool { return l.of(i) > 0 })
		})
	})
	if !visible {
		return nil, Nothing{errors.New(s.label + " is 0 everywhere, so there is nothing to draw")}
	}
	return func(w io.Writer, format string) error { return s.figure().Write(w, format) }, nil
}

// figure lays the stacks out. The deviation of the total is drawn at the upper end.
func (s stackChart) figure() *chart.Figure {
	const height = 220
	f := chart.New(s.title, height)
	var bars chart.Bars
	var shown whiskers
	most := 0.0
	used := make([]bool, len(s.layers))
	for i, g := range s.groups {
		for _, item := range g.items() {
			x, width := place(s.groups, i, item.Run.Result.Kind)
			level := 0.0
			for k, l := range s.layers {
				part := l.of(item)
				if part > 0 {
					bars = append(bars, chart.Bar{
						X: x, Width: width, From: level * s.scale, To: (level + part) * s.scale, Paint: l.look,
					})
					level, used[k] = level+part, true
				}
			}
			top := chart.Bar{X: x, Width: width, From: level * s.scale, To: level * s.scale, Text: s.text(level)}
			if hasBothKinds(s.groups) {
				initial := map[string]string{results.Predicted: "P ", results.Measured: "M "}
				top.Text = initial[item.Run.Result.Kind] + top.Text
			}
			if v, err := s.total(item); err == nil {
				v.mean = level
				low, high := v.whisker()
				top.Low, top.High = low*s.scale, high*s.scale
				shown.add(v, item)
			}
			bars = append(bars, top)
			most = max(most, level, top.High/s.scale)
		}
	}
	for _, l := range s.limits {
		most = max(most, l)
	}
	s.axis(&f.Y, s.label, most*s.scale)
	f.Y.Max *= 1.12
	f.Columns("", labels(s.groups))
	f.Add(bars, chart.BarTexts(bars))
	s.explain(f, used)
	shown.explain(f, "steps")
	f.Remark(s.notes)
	return f
}

// explain adds the limits and the legend.
func (s stackChart) explain(f *chart.Figure, used []bool) {
	for k, l := range s.layers {
		if used[k] {
			f.Explain(l.name, l.look)
		}
	}
	for i, l := range s.limits {
		style := chart.Dotted(chart.RGB(chart.Alarm), 1.4)
		line := chart.Line(style, point(f.X.Min, l*s.scale), point(f.X.Max, l*s.scale))
		f.Add(line)
		if i == 0 {
			f.Explain(s.limit, line)
		}
	}
	if hasBothKinds(s.groups) {
		f.Explain("P predicted, M measured", nil)
	}
}
