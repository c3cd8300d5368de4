package published

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim/internal/units"
)

// A stackError sums the errors of the training runs of a stack on a device, or of those in one
// precision and of one kind of network.
type stackError struct {
	stack, device, precision string
	mixture                  bool
	rows                     int
	errors                   []float64 // of the rows that no constant was fitted to
}

// byStack groups the training runs of a report that do not stand apart, in the order of the tables.
func (r Report) byStack() []stackError {
	return r.runsBy(func(row DataPoint) stackError { return stackError{stack: row.Stack, device: row.Device} })
}

// runsBy groups the training runs of a report by a function, in the order of the tables.
func (r Report) runsBy(group func(DataPoint) stackError) []stackError {
	var groups []stackError
	for _, t := range r.Tables {
		for _, row := range t.Replayed {
			if row.Stack == "" || t.Apart != "" {
				continue
			}
			of := group(row)
			i := slices.IndexFunc(groups, func(g stackError) bool {
				return g.name() == of.name() && g.precision == of.precision && g.mixture == of.mixture
			})
			if i < 0 {
				i, groups = len(groups), append(groups, of)
			}
			if groups[i].rows++; !row.Used {
				groups[i].errors = append(groups[i].errors, row.Error())
			}
		}
	}
	return slices.DeleteFunc(groups, func(g stackError) bool { return g.errors == nil })
}

// together holds the errors of all groups.
func together(groups []stackError) stackError {
	all := stackError{stack: "all"}
	for _, g := range groups {
		all.rows, all.errors = all.rows+g.rows, append(all.errors, g.errors...)
	}
	return all
}

// sizes holds the errors without their signs.
func (g stackError) sizes() []float64 {
	off := make([]float64, len(g.errors))
	for i, e := range g.errors {
		off[i] = math.Abs(e)
	}
	return off
}

// mean averages the sizes of the errors.
func (g stackError) mean() float64 { return units.Mean(g.sizes()) }

// median returns the error in the middle, by size.
func (g stackError) median() float64 { return units.Median(g.sizes()) }

// worst returns the largest error, by size.
func (g stackError) worst() float64 { return slices.Max(g.sizes()) }

// name returns the stack and the device.
func (g stackError) name() string { return strings.TrimSuffix(g.stack+" on "+g.device, " on ") }

// line writes a row of Markdown: errors by size, and then with their sign.
func (g stackError) line() string {
	var signs float64
	for _, e := range g.errors {
		signs += e
	}
	n := len(g.errors)
	counted := fmt.Sprint(n)
	if n < g.rows {
		counted = fmt.Sprintf("%d of %d", n, g.rows)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", g.stack, g.device, counted,
		percent(g.mean()), percent(g.median()), percent(g.worst()), signed(signs/float64(n)),
		cmp.Or(g.claim(), "none known"))
}

// claim returns the claim of other tools' authors about their errors for the stack and the kind of
// device.
func (g stackError) claim() string {
	for _, r := range records("claims.csv") {
		if r.text("stack") == g.stack && r.text("chip") == chipOf(g.device) {
			return r.text("claim")
		}
	}
	return ""
}

// writeStacks writes a table of training runs by stack and device, if there are any.
func (r Report) writeStacks(b *strings.Builder) {
	groups := r.byStack()
	if groups == nil {
		return
	}
	slices.SortStableFunc(groups, func(x, y stackError) int { return cmp.Compare(y.rows, x.rows) })
	b.WriteString("The time of a step, by the program that trains (a stack: `psim list stacks` has them) and the\n" +
		"device. The sign says whether predictions are too slow (+) or too fast (−) on average. Errors of\n" +
		"other tools on these rows are not known: what is cited is claimed by their authors, of runs of\n" +
		"their own.\n\n" +
		"| stack | device | rows | mean | median | worst | sign | best claims of other tools, elsewhere |\n" +
		"|---|---|--:|--:|--:|--:|--:|---|\n")
	for _, g := range groups {
		b.WriteString(g.line())
	}
	b.WriteString(together(groups).line())
	b.WriteString("\nPlans in 4 bits were all used for a fit, and stand in no line above.\n" +
		"\nAll tables. Each has a section below, where training runs are split by what their source says of\n" +
		"them: names with a dot are settings (`psim help config`). A class of one or two rows is left out of a\n" +
		"split, unless the table is small or the split is by model.\n\n")
}
