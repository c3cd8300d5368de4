package reports

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"psim/internal/units"
	"psim/schedules/graph"
)

// WriteTable prints a comparison for people: both runs side by side, what the
// difference is made of, by kind of task and by rank, and the warnings.
func (c Comparison) WriteTable(w io.Writer) error {
	out := newPage(w)
	a, b := c.columns()
	out.print("%s\n", c.headline())
	if c.equal() {
		out.print("no difference: every number that is compared is equal in A and B\n")
	}
	out.table(c.totalRows(a, b))
	average, of := "averaged over the ranks", ""
	if c.A.Steps > 1 || c.B.Steps > 1 {
		average, of = average+" and the measured steps", " in the measured step of the median time"
	}
	if !c.ByPart.IsZero() {
		out.section("what the step is made of, "+average, c.partRows(a, b))
	}
	if len(c.ByKind) > 0 {
		out.section("by kind of task, on average"+of, c.kindRows(a, b))
	}
	if len(c.ByRank) > 0 {
		out.section("by rank", c.rankRows(a, b))
	}
	out.warn(c.Warnings)
	return out.Flush()
}

// equal reports whether nothing differs of what is compared.
func (c Comparison) equal() bool {
	a, b := c.A, c.B
	same := a.StepTime == b.StepTime && a.Bubble.equal(b.Bubble) && a.PeakMemory == b.PeakMemory && (a.Parts == b.Parts || a.Parts.IsZero() && b.Parts.IsZero())
	for _, k := range c.ByKind {
		same = same && k.CountA == k.CountB && k.TotalA == k.TotalB
	}
	for _, r := range c.ByRank {
		same = same && r.BusyA == r.BusyB && r.IdleA == r.IdleB && r.PeakMemoryA == r.PeakMemoryB
	}
	return same && c.Tasks.OnlyA == 0 && c.Tasks.OnlyB == 0
}

func (c Comparison) headline() string {
	a, b := nameText(c.A.Name, c.A.text), nameText(c.B.Name, c.B.text)
	if a == b {
		return fmt.Sprintf("%s: %s (B) against %s (A)", a, c.B.kind(), c.A.kind())
	}
	return fmt.Sprintf("%s, %s (B) against %s, %s (A)", b, c.B.kind(), a, c.A.kind())
}

// kind says whether a side was measured, and over how many steps.
func (s Side) kind() string {
	if s.Steps > 1 {
		return fmt.Sprintf("%s, mean of %d steps", s.Kind, s.Steps)
	}
	return s.Kind
}

// computes reports whether a bubble has a meaning.
func (c Comparison) computes() bool { return c.A.Parts.Compute > 0 || c.B.Parts.Compute > 0 }

func (c Comparison) totalRows(a, b string) [][]string {
	rows := [][]string{
		{"", a, b, "B against A"},
		{"step time", duration(c.A.StepTime), duration(c.B.StepTime), c.ofStep(c.StepTimeDifference)},
	}
	if c.computes() {
		rows = append(rows, []string{"bubble", share(c.A.Bubble), share(c.B.Bubble), cell(!c.BubbleDifference.IsZero(), Points(float64(c.BubbleDifference)))})
	}
	if c.A.PeakMemory != 0 || c.B.PeakMemory != 0 {
		rows = append(rows, append([]string{"peak memory"}, peaks(c.A.PeakMemory, c.B.PeakMemory, c.PeakMemoryDifference)...))
	}
	return rows
}

// peaks makes the cells of two peaks. A peak of 0 means that it is unknown.
func peaks(a, b int64, difference Maybe) []string {
	return []string{
		cell(a > 0, units.FormatBytes(a)), cell(b > 0, units.FormatBytes(b)), cell(!difference.IsZero(), SignedPercent(float64(difference))),
	}
}

// share prints a share that may be unknown.
func share(x Maybe) string { return cell(!x.IsZero(), percent(float64(x))) }

// ofStep prints a fraction of A's step; of a step without time there is none.
func (c Comparison) ofStep(fraction float64) string {
	return cell(c.A.StepTime > 0, SignedPercent(fraction))
}

// cell shows a dash for what is not known.
func cell(known bool, text string) string {
	if !known {
		return "–"
	}
	return text
}

// partRows split the step and the error; the last column says what each part
// means.
func (c Comparison) partRows(a, b string) [][]string {
	rows := [][]string{{"", a, b, "of A's step", ""}}
	for _, p := range c.parts() {
		rows = append(rows, []string{p.name, duration(p.a), duration(p.b), c.ofStep(p.error), p.meaning})
	}
	rows = append(rows, []string{"together", duration(c.A.StepTime), duration(c.B.StepTime), c.ofStep(c.StepTimeDifference), ""})
	longest := 0
	for _, row := range rows {
		longest = max(longest, len(row[4]))
	}
	for _, row := range rows { // flush left, as prose is
		row[4] += strings.Repeat(" ", longest-len(row[4]))
	}
	return rows
}

// part holds a row of the split of the error.
type part struct {
	name        string
	a, b, error float64
	meaning     string
}

func (c Comparison) parts() []part {
	x, y, e := c.A.Parts, c.B.Parts, c.ByPart
	list := []part{
		{"compute", x.Compute, y.Compute, e.Compute, "forward, backward and optimizer take %s"},
		{"communication", x.Communication, y.Communication, e.Communication, "communication that no work hides takes %s"},
		{"waiting", x.Waiting, y.Waiting, e.Waiting, "waiting for other ranks takes %s"},
		{"dispatch", x.Dispatch, y.Dispatch, e.Dispatch, "starting work that is ready takes %s"},
	}
	for i, p := range list {
		switch difference := p.b - p.a; {
		case math.Abs(difference) <= 1e-9*max(c.A.StepTime, c.B.StepTime):
			list[i].meaning = ""
		case c.A.StepTime > 0 && SignedPercent(p.error) == SignedPercent(0):
			list[i].meaning = fmt.Sprintf(p.meaning, "as long")
		case p.name == "dispatch" && p.a == 0 && c.A.Kind == Predicted && c.B.Kind == Measured:
			list[i].meaning = fmt.Sprintf(p.meaning, "time, of which the prediction has none")
		case difference > 0:
			list[i].meaning = fmt.Sprintf(p.meaning, "longer")
		default:
			list[i].meaning = fmt.Sprintf(p.meaning, "less time")
		}
	}
	return list
}

func (c Comparison) kindRows(a, b string) [][]string {
	rows := [][]string{{"", a, b, "B against A", "tasks", "of A's step"}}
	for k := graph.Forward; k <= graph.AllToAll; k++ {
		x, ok := c.ByKind[k.String()]
		if !ok {
			continue
		}
		tasks := strconv.Itoa(x.CountA)
		if x.CountA != x.CountB {
			tasks += " → " + strconv.Itoa(x.CountB)
		}
		rows = append(rows, []string{
			k.String(), cell(x.CountA > 0, duration(x.MeanA)), cell(x.CountB > 0, duration(x.MeanB)),
			cell(x.MeanA > 0 && x.CountB > 0, SignedPercent(x.Error)), tasks, c.ofStep(x.OfStep),
		})
	}
	return rows
}

// rankRows compares the ranks, and has no peaks where none is known.
func (c Comparison) rankRows(a, b string) [][]string {
	rows := [][]string{{"", "busy", "", "", "idle", "", "", "peak memory", "", ""}, {"rank"}}
	for _, of := range []string{"of A's step", "of A's step", "B against A"} {
		rows[1] = append(rows[1], a, b, of)
	}
	ranks, _ := rowsOf(c.ByRank, func(r RankComparison) []string {
		return append([]string{
			strconv.Itoa(r.Rank), duration(r.BusyA), duration(r.BusyB), c.ofStep(r.BusyError),
			duration(r.IdleA), duration(r.IdleB), c.ofStep(r.IdleError),
		}, peaks(r.PeakMemoryA, r.PeakMemoryB, r.PeakMemoryError)...)
	})
	rows = append(rows, ranks...)
	if c.A.PeakMemory == 0 && c.B.PeakMemory == 0 {
		for i := range rows {
			rows[i] = rows[i][:min(len(rows[i]), 7)]
		}
	}
	return rows
}

// WriteCSV writes a comparison as a row per quantity: what it is of, its name
// and unit, its value in A and B, and B − A.
func (c Comparison) WriteCSV(w io.Writer) error {
	out := newCSVWriter(w, "of,item,quantity,a,b,difference")
	row := func(of string, item any, quantity string, a, b float64) {
		out.row(of, item, quantity, plain(a), plain(b), plain(b-a))
	}
	row("step", "", "time_s", c.A.StepTime, c.B.StepTime)
	row("step", "", "bubble", float64(c.A.Bubble), float64(c.B.Bubble))
	for _, p := range c.parts() {
		row("part", p.name, "time_s", p.a, p.b)
	}
	for k := graph.Forward; k <= graph.AllToAll; k++ {
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

// plain prints a number without an exponent, and nothing where it is unknown.
func plain(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}
