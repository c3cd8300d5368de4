package order

import (
	"fmt"
	"strings"

	"psim/schedules/graph"
)

const overlapped = "OVERLAP_F_B"

// Cells prints actions as PyTorch does, an overlapped pair in one cell:
// (0F3;3B1)OVERLAP_F_B.
func Cells(actions []Action) []string {
	cells := make([]string, 0, len(actions))
	for i := 0; i < len(actions); i++ {
		cell := actions[i].String()
		if actions[i].Pair && i+1 < len(actions) {
			i++
			cell = "(" + cell + ";" + actions[i].String() + ")" + overlapped
		}
		cells = append(cells, cell)
	}
	return cells
}

// ParseCell is the inverse of Cells for one cell: an action, or two that are
// a pair.
func ParseCell(cell string) ([]Action, error) {
	inner, isPair := strings.CutSuffix(cell, ")"+overlapped)
	if !isPair || !strings.HasPrefix(inner, "(") {
		a, err := ParseAction(cell)
		return []Action{a}, err
	}
	first, second, two := strings.Cut(inner[1:], ";")
	if !two {
		return nil, notPair(cell)
	}
	f, err := ParseAction(first)
	if err != nil {
		return nil, err
	}
	b, err := ParseAction(second)
	if err != nil {
		return nil, err
	}
	if f.Kind != graph.Forward || b.Kind != graph.Backward {
		return nil, notPair(cell)
	}
	f.Pair = true
	return []Action{f, b}, nil
}

func notPair(cell string) error {
	return fmt.Errorf("%q is not a pair; a pair is a forward and a backward, such as (0F3;3B1)%s", clip(cell), overlapped)
}
