package figures

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/plot/vg/draw"

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
		if slices.ContainsFunc(t.items, func(i Item) bool { return !i.Run.Result.FitsMemory }) {
			remark += ", by their points that fit"
		}
		lines = t.bestCurves(lines)
	}
	for i, c := range lines {
		line, marks := chart.Lines(i)
		t.unjoin(&line)
		list = append(list, styledCurve{c, chart.MarkedLine{Line: line, Marks: marks}})
		if c.name != "" {
			f.Explain(c.name, list[i].MarkedLine)
		}
	}
	return list, remark
}

// unjoin leaves only the marks of a line whose points are not joined.
func (t table) unjoin(line *draw.LineStyle) {
	if !t.numeric() {
		line.Width = 0
	}
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
		t.unjoin(&line)
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

// bestCurves keeps the maxCurves lines with the best points, in their order. Points that fit in
// memory are better than any that do not.
func (t table) bestCurves(lines []curve) []curve {
	better := func(a, b int) int {
		switch x, y := t.items[a].Run.Result.FitsMemory, t.items[b].Run.Result.FitsMemory; {
		case x && !y:
			return -1
		case y && !x:
			return 1
		case lessIsBetter(t.key):
			return cmp.Compare(t.values[a], t.values[b])
		}
		return cmp.Compare(t.values[b], t.values[a])
	}
	best := func(c curve) int { return slices.MinFunc(c.points, better) }
	order := slices.Clone(lines)
	slices.SortStableFunc(order, func(a, b curve) int { return better(best(a), best(b)) })
	kept := map[string]bool{}
	for _, c := range order[:maxCurves] {
		kept[c.name] = true
	}
	return slices.DeleteFunc(lines, func(c curve) bool { return !kept[c.name] })
}
