package reports

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"psim/internal/csvfile"
	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
	"psim/results/compare"
	"psim/schedules/graph"
)

// WriteComparison prints a comparison for people: both runs side by side, what the
// difference is made of, by kind of task and by rank, and the warnings.
func WriteComparison(w io.Writer, c compare.Comparison) error {
	out := table.NewPage(w)
	a, b := c.Columns()
	out.Print("%s\n", comparisonHeadline(c))
	if equal(c) {
		out.Print("no difference: every number that is compared is equal in A and B\n")
	}
	out.Table(totalRows(c, a, b))
	average, of := "averaged over the ranks", ""
	if c.A.Steps > 1 || c.B.Steps > 1 {
		average, of = average+" and the measured steps", " in the measured step of the median time"
	}
	if !c.ByPart.IsZero() {
		out.Section("what the step is made of, "+average, stepPartRows(c, a, b))
	}
	if len(c.ByKind) > 0 {
		out.Section("by kind of task, on average"+of, kindRows(c, a, b))
	}
	if len(c.ByRank) > 0 {
		out.Section("by rank", rankComparisonRows(c, a, b))
	}
	out.Warn(c.Warnings)
	return out.Flush()
}

// equal reports whether nothing differs of what is compared.
func equal(c compare.Comparison) bool {
	a, b := c.A, c.B
	same := a.StepTime == b.StepTime && a.Bubble.Equal(b.Bubble) && a.PeakMemory == b.PeakMemory && (a.Parts == b.Parts || a.Parts.IsZero() && b.Parts.IsZero())
	for _, k := range c.ByKind {
		same = same && k.CountA == k.CountB && k.TotalA == k.TotalB
	}
	for _, r := range c.ByRank {
		same = same && r.BusyA == r.BusyB && r.IdleA == r.IdleB && r.PeakMemoryA == r.PeakMemoryB
	}
	return same && c.Tasks.OnlyA == 0 && c.Tasks.OnlyB == 0
}

func comparisonHeadline(c compare.Comparison) string {
	a, b := results.FullName(c.A.Name, c.A.ScheduleText), results.FullName(c.B.Name, c.B.ScheduleText)
	if a == b {
		return fmt.Sprintf("%s: %s (B) against %s (A)", a, sideKind(c.B), sideKind(c.A))
	}
	return fmt.Sprintf("%s, %s (B) against %s, %s (A)", b, sideKind(c.B), a, sideKind(c.A))
}

// kind says whether a side was measured, and over how many steps.
func sideKind(s compare.Side) string {
	if s.Steps > 1 {
		return fmt.Sprintf("%s, mean of %d steps", s.Kind, s.Steps)
	}
	return s.Kind
}

// computesAny reports whether a bubble has a meaning.
func computesAny(c compare.Comparison) bool { return c.A.Parts.Compute > 0 || c.B.Parts.Compute > 0 }

func totalRows(c compare.Comparison, a, b string) [][]string {
	rows := [][]string{
		{"", a, b, "B against A"},
		{"step time", units.FormatSeconds(c.A.StepTime), units.FormatSeconds(c.B.StepTime), ofStep(c, c.StepTimeDifference)},
	}
	if computesAny(c) {
		rows = append(rows, []string{"bubble", share(c.A.Bubble), share(c.B.Bubble), cell(!c.BubbleDifference.IsZero(), units.FormatPoints(float64(c.BubbleDifference)))})
	}
	if c.A.PeakMemory != 0 || c.B.PeakMemory != 0 {
		rows = append(rows, append([]string{"peak memory"}, peaks(c.A.PeakMemory, c.B.PeakMemory, c.PeakMemoryDifference)...))
	}
	return rows
}

// peaks makes the cells of two peaks. A peak of 0 means that it is unknown.
func peaks(a, b int64, difference compare.Maybe) []string {
	return []string{
		cell(a > 0, units.FormatBytes(a)), cell(b > 0, units.FormatBytes(b)), cell(!difference.IsZero(), units.FormatSignedPercent(float64(difference))),
	}
}

// share prints a share that may be unknown.
func share(x compare.Maybe) string { return cell(!x.IsZero(), units.FormatPercent(float64(x))) }

// ofStep prints a fraction of A's step; of a step without time there is none.
func ofStep(c compare.Comparison, fraction float64) string {
	return cell(c.A.StepTime > 0, units.FormatSignedPercent(fraction))
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
func stepPartRows(c compare.Comparison, a, b string) [][]string {
	rows := [][]string{{"", a, b, "of A's step", ""}}
	for _, p := range stepParts(c) {
		rows = append(rows, []string{p.name, units.FormatSeconds(p.a), units.FormatSeconds(p.b), ofStep(c, p.error), p.meaning})
	}
	rows = append(rows, []string{"together", units.FormatSeconds(c.A.StepTime), units.FormatSeconds(c.B.StepTime), ofStep(c, c.StepTimeDifference), ""})
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

func stepParts(c compare.Comparison) []part {
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
		case c.A.StepTime > 0 && units.FormatSignedPercent(p.error) == units.FormatSignedPercent(0):
			list[i].meaning = fmt.Sprintf(p.meaning, "as long")
		case p.name == "dispatch" && p.a == 0 && c.A.Kind == results.Predicted && c.B.Kind == results.Measured:
			list[i].meaning = fmt.Sprintf(p.meaning, "time, of which the prediction has none")
		case difference > 0:
			list[i].meaning = fmt.Sprintf(p.meaning, "longer")
		default:
			list[i].meaning = fmt.Sprintf(p.meaning, "less time")
		}
	}
	return list
}

func kindRows(c compare.Comparison, a, b string) [][]string {
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
			k.String(), cell(x.CountA > 0, units.FormatSeconds(x.MeanA)), cell(x.CountB > 0, units.FormatSeconds(x.MeanB)),
			cell(x.MeanA > 0 && x.CountB > 0, units.FormatSignedPercent(x.Error)), tasks, ofStep(c, x.OfStep),
		})
	}
	return rows
}

// rankRows compares the ranks, and has no peaks where none is known.
func rankComparisonRows(c compare.Comparison, a, b string) [][]string {
	rows := [][]string{{"", "busy", "", "", "idle", "", "", "peak memory", "", ""}, {"rank"}}
	for _, of := range []string{"of A's step", "of A's step", "B against A"} {
		rows[1] = append(rows[1], a, b, of)
	}
	ranks, _ := table.Excerpt(c.ByRank, func(r compare.RankComparison) []string {
		return append([]string{
			strconv.Itoa(r.Rank), units.FormatSeconds(r.BusyA), units.FormatSeconds(r.BusyB), ofStep(c, r.BusyError),
			units.FormatSeconds(r.IdleA), units.FormatSeconds(r.IdleB), ofStep(c, r.IdleError),
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

// WriteComparisonCSV writes a comparison as a row per quantity: what it is of, its name
// and unit, its value in A and B, and B − A.
func WriteComparisonCSV(w io.Writer, c compare.Comparison) error {
	out := csvfile.NewWriter(w, "of,item,quantity,a,b,difference")
	row := func(of string, item any, quantity string, a, b float64) {
		out.Row(of, item, quantity, plain(a), plain(b), plain(b-a))
	}
	row("step", "", "time_s", c.A.StepTime, c.B.StepTime)
	row("step", "", "bubble", float64(c.A.Bubble), float64(c.B.Bubble))
	for _, p := range stepParts(c) {
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
	return out.End()
}

// plain prints a number without an exponent, and nothing where it is unknown.
func plain(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}
