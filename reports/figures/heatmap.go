package figures

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"

	"psim/reports/chart"
)

// heatmap draws a number over two settings. If other settings differ too, a square shows
// the best of their values: the least for time and memory, the most for anything else.
func heatmap(r Request) (Picture, error) {
	t, err := newTable(r)
	if err != nil {
		return nil, err
	}
	if len(t.others) == 0 {
		return nil, fmt.Errorf(
			"a heatmap needs two settings that differ, and here only %s does; psim plot sweep draws one", t.across.key)
	}
	if len(t.others[0].values) > 200 || len(t.across.values) > 200 {
		return nil, errors.New("a heatmap has at most 200 columns and rows")
	}
	return func(w io.Writer, format string) error { return t.heatmap().Write(w, format) }, nil
}

func (t table) heatmap() *chart.Figure {
	up := t.others[0]
	row := max(12, min(34, 260/float64(len(up.values))))
	f := chart.New(title(t.label, t.items), vg.Length(row*float64(len(up.values))))
	f.Columns(axisTitle(t.across.key), t.across.valueTexts())
	f.Rows(axisTitle(up.key), up.valueTexts())
	cells, unfit := chart.Cells{}, false
	best := t.best(up)
	low, high := math.Inf(1), math.Inf(-1)
	for _, k := range best {
		low, high = min(low, t.values[k]), max(high, t.values[k])
	}
	for at, k := range best {
		level := 0.5
		if high > low {
			level = (t.values[k] - low) / (high - low)
		}
		look := chart.Paint{Color: chart.Heat(level)}
		if !t.items[k].Run.Result.FitsMemory {
			look.Hatch, unfit = chart.Falling, true
		}
		cells = append(cells, chart.Cell{Column: at[0], Row: at[1], Look: look, Text: t.text(t.values[k])})
	}
	sortCells(cells)
	f.Add(cells)
	f.Explain(t.text(low), chart.Paint{Color: chart.Heat(0)})
	f.Explain(t.text(high), chart.Paint{Color: chart.Heat(1)})
	if unfit {
		f.Explain("does not fit in memory", chart.Paint{Color: chart.Heat(0.3), Hatch: chart.Falling})
	}
	if len(t.others) > 1 {
		f.Explain("each square: the best over "+t.others[1].key, nil)
	}
	f.Remark(t.notes)
	return f
}

// sortCells sorts cells by row and column.
func sortCells(cells []chart.Cell) {
	slices.SortFunc(cells, func(a, b chart.Cell) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Column, b.Column))
	})
}

// best finds the item that each square shows, by column and row.
func (t table) best(up dimension) map[[2]int]int {
	least := lessIsBetter(t.key)
	best := map[[2]int]int{}
	for k, i := range t.items {
		at := [2]int{slices.Index(t.across.values, i.at(t.across)), slices.Index(up.values, i.at(up))}
		before, seen := best[at]
		better := seen && (t.values[k] > t.values[before]) != least && t.values[k] != t.values[before]
		if at[0] >= 0 && at[1] >= 0 && (!seen || better) {
			best[at] = k
		}
	}
	return best
}
