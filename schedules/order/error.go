package order

import (
	"fmt"
	"strings"
)

// An Error shows where an order is illegal.
type Error struct {
	Rank, Index int    // the offending action; Index is -1 if an action is missing
	Problem     string // what is wrong and what would be right
	Order       Order
}

// Error prints the problem and the surrounding part of the grid of ranks and steps, with
// an arrow at the offending action, or at the rank that lacks one.
func (e *Error) Error() string {
	place := fmt.Sprintf("rank %d", e.Rank)
	if e.Index >= 0 {
		place += fmt.Sprintf(", step %d", e.Index)
	}
	return fmt.Sprintf("%s: %s\n%s", place, e.Problem, e.grid())
}

// The part of the grid around the offending action that Error prints.
const (
	stepsBefore, steps      = 4, 8
	ranksBefore, ranksAfter = 4, 4
)

func (e *Error) grid() string {
	from := max(0, e.Index-stepsBefore)
	w := gridWindow{order: e.Order, from: from, to: from + steps}
	first, last := max(0, e.Rank-ranksBefore), min(len(e.Order)-1, e.Rank+ranksAfter)
	w.measure(first, last)
	lines := []string{w.header()}
	for r := first; r <= last; r++ {
		lines = append(lines, w.row(r))
		if r == e.Rank {
			lines = append(lines, w.arrow(r, e.Index))
		}
	}
	if hidden := len(e.Order) - 1 - last; hidden > 0 {
		lines = append(lines, fmt.Sprintf("  … and %d more ranks", hidden))
	}
	return strings.Join(lines, "\n")
}

// gridWindow shows some steps of an order, in columns of equal width.
type gridWindow struct {
	order       Order
	from, to    int // steps
	cell, label int // widths
}

// measure finds the widths of columns, and drops columns in which no rank has an action.
func (w *gridWindow) measure(first, last int) {
	end := w.from
	for r := first; r <= last; r++ {
		for i := w.from; i < min(w.to, len(w.order[r])); i++ {
			w.cell = max(w.cell, len(w.order[r][i].String()))
			end = max(end, i+1)
		}
	}
	w.to = end
	w.cell = max(w.cell, len(fmt.Sprint(end)))
	w.label = len(fmt.Sprintf("  rank %d:", last))
}

func (w *gridWindow) header() string {
	line := fmt.Sprintf("%-*s", w.label, "  step")
	for i := w.from; i < w.to; i++ {
		line += fmt.Sprintf(" %*d", w.cell, i)
	}
	return line
}

func (w *gridWindow) row(rank int) string {
	actions := w.order[rank]
	line := fmt.Sprintf("%-*s", w.label, fmt.Sprintf("  rank %d:", rank))
	for i := w.from; i < min(w.to, len(actions)); i++ {
		line += fmt.Sprintf(" %*s", w.cell, actions[i])
	}
	if len(actions) > w.to {
		line += " …"
	}
	return line
}

// arrow points at an action of the row above, or at the rank.
func (w *gridWindow) arrow(rank, index int) string {
	if index < 0 {
		return "  " + strings.Repeat("^", len(fmt.Sprintf("rank %d", rank)))
	}
	end := w.label + (index-w.from+1)*(w.cell+1)
	arrow := strings.Repeat("^", len(w.order[rank][index].String()))
	return fmt.Sprintf("%*s", end, arrow)
}
