package order

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"psim/schedules/graph"
)

// A Placed is an action together with the rank that runs it.
type Placed struct {
	Action
	Rank int
}

// Cycles lists the actions of every clock cycle (see Clocks), by stage and
// microbatch. In GPipe, the forward of microbatch m on stage s is in cycle m + s:
//
//	cycle 0: (0,0)
//	cycle 1: (1,0) (0,1)
//	cycle 2: (2,0) (1,1) (0,2)
func (o Order) Cycles() ([][]Placed, error) {
	o = o.Compute()
	clocks, err := o.Clocks()
	if err != nil {
		return nil, err
	}
	var cycles [][]Placed
	for r, actions := range o {
		for i, a := range actions {
			for int(clocks[r][i]) >= len(cycles) {
				cycles = append(cycles, nil)
			}
			a.Pair = false // the two actions of a pair have cycles of their own
			cycles[clocks[r][i]] = append(cycles[clocks[r][i]], Placed{a, r})
		}
	}
	for _, c := range cycles {
		slices.SortFunc(c, func(a, b Placed) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Stage, b.Stage),
				cmp.Compare(a.Microbatch, b.Microbatch))
		})
	}
	return cycles, nil
}

// cycleKinds lists the kinds of action in cycles.
func cycleKinds(cycles [][]Placed) []graph.Kind {
	var kinds []graph.Kind
	for _, c := range cycles {
		for _, p := range c {
			if !slices.Contains(kinds, p.Kind) {
				kinds = append(kinds, p.Kind)
			}
		}
	}
	slices.Sort(kinds)
	return kinds
}

// WriteCycles prints a line per clock cycle: the (microbatch,stage) pairs of every
// kind of action.
func WriteCycles(w io.Writer, cycles [][]Placed) error {
	kinds := cycleKinds(cycles)
	rows := [][]string{{"cycle"}}
	for _, k := range kinds {
		rows[0] = append(rows[0], k.String()+" (microbatch,stage)")
	}
	for i, c := range cycles {
		row := []string{strconv.Itoa(i)}
		for _, k := range kinds {
			var pairs []string
			for _, p := range c {
				if p.Kind == k {
					pairs = append(pairs, fmt.Sprintf("(%d,%d)", p.Microbatch, p.Stage))
				}
			}
			row = append(row, strings.Join(pairs, " "))
		}
		rows = append(rows, row)
	}
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range rows {
		line := fmt.Sprintf("%-*s", width[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("  %-*s", width[i+1], cell)
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// WriteCyclesCSV prints a row per action.
func WriteCyclesCSV(w io.Writer, cycles [][]Placed) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"cycle", "kind", "microbatch", "stage", "rank"}}
	for i, c := range cycles {
		for _, p := range c {
			rows = append(rows, []string{
				strconv.Itoa(i), p.Kind.String(), fmt.Sprint(p.Microbatch), fmt.Sprint(p.Stage), strconv.Itoa(p.Rank),
			})
		}
	}
	return out.WriteAll(rows)
}
