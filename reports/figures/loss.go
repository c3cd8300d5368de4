package figures

import (
	"fmt"
	"io"
	"math"

	"gonum.org/v1/plot/plotter"

	"psim/reports/chart"
	"psim/results"
)

// loss draws the losses of measured results over their steps.
func loss(r Request) (Picture, error) {
	for i := range r.Items {
		switch item := &r.Items[i]; {
		case item.Run.Result.Kind != results.Measured:
			return nil, fmt.Errorf("%s: is a prediction, which trains nothing; psim exec measures a loss", item.named())
		case item.Run.Result.Measurement == nil || len(item.Run.Result.Losses) == 0:
			return nil, fmt.Errorf("%s: has no losses; run psim exec again", item.named())
		}
	}
	groups := grouped(r.Items)
	return func(w io.Writer, format string) error { return lossFigure(r, groups).Write(w, format) }, nil
}

func lossFigure(r Request, groups []group) *chart.Figure {
	const height = 210
	f := chart.New(title("loss", r.Items), height)
	steps, most := 1, 0.0
	for _, i := range r.Items {
		steps = max(steps, len(i.Run.Result.Losses))
		for _, l := range i.Run.Result.Losses {
			if !math.IsInf(l, 0) && l < math.MaxFloat64 {
				most = max(most, l)
			}
		}
	}
	chart.Numbers(&f.X, chart.Scale{
		Label: "step, the warm-up's among them", High: float64(steps), Intervals: min(10, steps),
	})
	chart.Numbers(&f.Y, chart.Scale{Label: "loss, before the step", High: max(most, 1e-9), Intervals: 6})
	f.X.Min, f.X.Max, f.Y.Max = 0.5, float64(steps)+0.5, f.Y.Max*1.05
	for i, g := range groups {
		style, look := chart.Lines(i)
		line, points := chart.Line(style), &plotter.Scatter{GlyphStyle: look}
		for n, l := range g.measured.Run.Result.Losses {
			if l < math.MaxFloat64 { // a loss that diverged is outside the picture
				line.XYs = append(line.XYs, point(float64(n+1), l))
			}
		}
		points.XYs = line.XYs
		f.Add(line)
		if steps <= 60 {
			f.Add(points)
			f.Explain(g.label, chart.MarkedLine{Line: style, Marks: look})
		} else {
			f.Explain(g.label, line)
		}
	}
	f.Remark(r.Notes)
	return f
}
