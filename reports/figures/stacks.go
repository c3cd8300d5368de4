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

// A stackChart is a stack for every result.
type stackChart struct {
	title string
	quantity
	groups []group
	layers []layer
	total  valueOf
	limits []float64 // dotted lines
	limit  string    // what they are
	notes  []string
}

// splitTime draws what a step is made of, averaged over the ranks.
func splitTime(r Request) (Picture, error) {
	for i := range r.Items {
		if !r.Items[i].Run.Result.HasBreakdown() {
			return nil, fmt.Errorf("%s: tells how long a step takes, and not what it is made of; draw its time with psim plot time", r.Items[i].named())
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
		title: title("what a step is made of", r.Items), notes: r.Notes, quantity: seconds("time of a step, averaged over the ranks"), groups: grouped(r.Items),
		layers: []layer{
			{"computation", chart.Paint{Color: chart.Color(0)}, mean(func(r results.RankResult) float64 { return r.Compute })},
			{"exposed communication", chart.Paint{Color: chart.Color(1), Hatch: chart.Rising}, mean(func(r results.RankResult) float64 { return r.ExposedCommunication })},
			{"optimizer", chart.Paint{Color: chart.Color(2), Hatch: chart.Falling}, mean(func(r results.RankResult) float64 { return r.Optimizer })},
			{"idle", chart.Paint{Color: chart.RGB(chart.Grid)}, mean(func(r results.RankResult) float64 { return r.Idle })},
		},
		total: func(i *Item) (value, error) { return timeOf(i.Run.Result), nil },
	}
	return s.picture()
}

// picture draws the stacks.
func (s stackChart) picture() (Picture, error) {
	some := slices.ContainsFunc(s.groups, func(g group) bool {
		return slices.ContainsFunc(g.items(), func(i *Item) bool {
			return slices.ContainsFunc(s.layers, func(l layer) bool { return l.of(i) > 0 })
		})
	})
	if !some {
		return nil, Nothing{errors.New(s.label + " is 0 everywhere, so there is nothing to draw")}
	}
	return func(w io.Writer, format string) error { return s.figure().Write(w, format) }, nil
}

// figure lays the stacks out. The deviation of the total stands at the upper end.
func (s stackChart) figure() *chart.Figure {
	const height = 220
	f := chart.New(s.title, height)
	var bars chart.Bars
	most, deviates := 0.0, false
	used := make([]bool, len(s.layers))
	for i, g := range s.groups {
		for _, item := range g.items() {
			x, width := place(s.groups, i, item.Run.Result.Kind)
			level := 0.0
			for k, l := range s.layers {
				part := l.of(item)
				if part > 0 {
					bars = append(bars, chart.Bar{X: x, Width: width, From: level * s.scale, To: (level + part) * s.scale, Paint: l.look})
					level, used[k] = level+part, true
				}
			}
			top := chart.Bar{X: x, Width: width, From: level * s.scale, To: level * s.scale, Text: s.text(level)}
			if both(s.groups) {
				top.Text = map[string]string{results.Predicted: "P ", results.Measured: "M "}[item.Run.Result.Kind] + top.Text
			}
			if v, err := s.total(item); err == nil && v.deviation > 0 {
				top.Error, deviates = v.deviation*s.scale, true
			}
			bars = append(bars, top)
			most = max(most, level+top.Error/s.scale)
		}
	}
	for _, l := range s.limits {
		most = max(most, l)
	}
	s.axis(&f.Y, s.label, most*s.scale)
	f.Y.Max *= 1.12
	f.Columns("", labels(s.groups))
	f.Add(bars, chart.BarTexts(bars))
	s.explain(f, used, deviates)
	return f
}

// explain adds the limits, and says what is in the picture.
func (s stackChart) explain(f *chart.Figure, used []bool, deviates bool) {
	for k, l := range s.layers {
		if used[k] {
			f.Explain(l.name, l.look)
		}
	}
	for i, l := range s.limits {
		line := chart.Line(chart.Dotted(chart.RGB(chart.Alarm), 1.4), point(f.X.Min, l*s.scale), point(f.X.Max, l*s.scale))
		f.Add(line)
		if i == 0 {
			f.Explain(s.limit, line)
		}
	}
	if both(s.groups) {
		f.Explain("P predicted, M measured", nil)
	}
	if deviates {
		f.Explain("whiskers: ± a standard deviation of the steps", nil)
	}
	f.Remark(s.notes)
}
