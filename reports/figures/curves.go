package figures

import (
	"cmp"
	"fmt"
	"slices"

	"psim/reports/chart"
)

// The most lines of a figure. Each of maxCurves has a colour of its own; more than that are
// distinguished by colours for a setting and dashes for another.
const maxCurves, maxDashed = 8, 24

// A styledCurve is a line and how it looks.
type styledCurve struct {
	curve
	chart.MarkedLine
}

// styled gives every line a look and a name in the legend. If there are too many lines to tell
// apart, it returns the best of them with a remark.
func (t table) styled(f *chart.Figure) (list []styledCurve, remark string) {
	lines := t.curves()
	if len(lines) > maxCurves {
		if list := t.twoWays(f, lines); list != nil {
			return list, ""
		}
		remark = fmt.Sprintf("the best %d of %d lines", maxCurves, len(lines))
		lines = t.bestCurves(lines)
	}
	for i, c := range lines {
		line, marks := chart.Lines(i)
		list = append(list, styledCurve{c, chart.MarkedLine{Line: line, Marks: marks}})
		if c.name != "" {
			f.Explain(c.name, list[i].MarkedLine)
		}
	}
	return list, remark
}

// twoWays draws the lines of two settings in a colour for each value of one and dashes for each
// value of the other. It returns nil if there are other settings, or too many values.
func (t table) twoWays(f *chart.Figure, lines []curve) (list []styledCurve) {
	if len(t.others) != 2 || len(lines) > maxDashed {
		return nil
	}
	colored, dashed := t.others[0], t.others[1]
	if len(dashed.values) > len(colored.values) {
		colored, dashed = dashed, colored
	}
	if len(colored.values) > maxCurves || len(dashed.values) > chart.LineStyles {
		return nil
	}
	for i, v := range colored.values {
		f.Explain(valueTitle(colored.key, v), chart.Swatch{Color: chart.Color(i)})
	}
	for i, v := range dashed.values {
		line, marks := chart.LineOf(0, i)
		line.Color, marks.Color = chart.RGB(chart.Faint), chart.RGB(chart.Faint)
		f.Explain(valueTitle(dashed.key, v), chart.MarkedLine{Line: line, Marks: marks})
	}
	for _, c := range lines {
		item := t.items[c.points[0]]
		line, marks := chart.LineOf(
			slices.Index(colored.values, item.at(colored)), slices.Index(dashed.values, item.at(dashed)))
		list = append(list, styledCurve{c, chart.MarkedLine{Line: line, Marks: marks}})
	}
	return list
}

// bestCurves keeps the maxCurves lines with the best points, in their order.
func (t table) bestCurves(lines []curve) []curve {
	best := func(c curve) float64 {
		x := t.values[c.points[0]]
		for _, k := range c.points {
			if lessIsBetter(t.key) {
				x = min(x, t.values[k])
			} else {
				x = max(x, t.values[k])
			}
		}
		return x
	}
	order := slices.Clone(lines)
	slices.SortStableFunc(order, func(a, b curve) int {
		if lessIsBetter(t.key) {
			return cmp.Compare(best(a), best(b))
		}
		return cmp.Compare(best(b), best(a))
	})
	kept := map[string]bool{}
	for _, c := range order[:maxCurves] {
		kept[c.name] = true
	}
	return slices.DeleteFunc(lines, func(c curve) bool { return !kept[c.name] })
}
