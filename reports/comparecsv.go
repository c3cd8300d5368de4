package reports

import (
	"io"
	"strconv"

	"psim/schedules/graph"
)

// WriteCSV writes a comparison as a row per quantity: what it is of, its name
// and unit, its value in A and B, and B − A.
func (c Comparison) WriteCSV(w io.Writer) error {
	out := newCSVWriter(w, "of,item,quantity,a,b,difference")
	row := func(of string, item any, quantity string, a, b float64) {
		out.row(of, item, quantity, plain(a), plain(b), plain(b-a))
	}
	row("step", "", "time_s", c.A.StepTime, c.B.StepTime)
	row("step", "", "bubble", c.A.Bubble, c.B.Bubble)
	for _, p := range c.parts() {
		row("part", p.name, "time_s", p.a, p.b)
	}
	for k := graph.Forward; k <= graph.Optimizer; k++ {
		if x, ok := c.ByKind[k.String()]; ok {
			row("kind", k, "count", float64(x.CountA), float64(x.CountB))
			row("kind", k, "mean_s", x.MeanA, x.MeanB)
			row("kind", k, "total_s", x.TotalA, x.TotalB)
		}
	}
	for _, r := range c.ByRank {
		row("rank", r.Rank, "busy_s", r.BusyA, r.BusyB)
		row("rank", r.Rank, "idle_s", r.IdleA, r.IdleB)
		row("rank", r.Rank, "peak_memory_bytes", float64(r.PeakMemoryA), float64(r.PeakMemoryB))
	}
	return out.end()
}

// plain prints a number without an exponent.
func plain(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
