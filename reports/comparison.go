package reports

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
	"psim/results/compare"
	"psim/schedules/graph"
)

// WriteComparison prints a comparison for people: both runs side by side, the parts of the
// difference, the kinds of task and the ranks, and the warnings.
func WriteComparison(w io.Writer, c compare.Comparison) error {
	out := table.NewPage(w)
	out.Print("%s\n", comparisonHeadline(c))
	if c.Impossible != "" {
		out.Print("%s\n", c.Impossible)
	}
	if equal(c) {
		out.Print("no difference: every number that is compared is equal in A and B\n")
	}
	totalTable(c).Text(out)
	average, of := "averaged over the ranks", ""
	if c.A.Steps > 1 || c.B.Steps > 1 {
		average, of = average+" and the measured steps", " in the measured step of the median time"
	}
	if !c.ByPart.IsZero() {
		out.Section("what the step is made of, " + average)
		partTable(c).Text(out)
	}
	if len(c.ByKind) > 0 {
		out.Section("by kind of task, on average" + of)
		kindTable(c).Text(out)
	}
	if len(c.ByRank) > 0 {
		out.Section("by rank")
		rankComparisonTable(c).Text(out)
	}
	out.Warn(c.Warnings)
	return out.Flush()
}

// equal reports whether all compared numbers are equal.
func equal(c compare.Comparison) bool {
	a, b := c.A, c.B
	same := a.StepTime == b.StepTime && a.Bubble.Equal(b.Bubble) && a.PeakMemory == b.PeakMemory
	same = same && (a.Parts == b.Parts || a.Parts.IsZero() && b.Parts.IsZero())
	for _, k := range c.ByKind {
		same = same && k.CountA == k.CountB && k.TotalA == k.TotalB
	}
	for _, r := range c.ByRank {
		same = same && r.BusyA == r.BusyB && r.IdleA == r.IdleB && r.PeakMemoryA == r.PeakMemoryB
	}
	same = same && c.WorkDiffers == nil && a.Throughput == b.Throughput
	return same && c.Tasks.OnlyA == 0 && c.Tasks.OnlyB == 0
}

// comparisonHeadline names the two runs.
func comparisonHeadline(c compare.Comparison) string {
	if a, b := c.A.FullName, c.B.FullName; a != b {
		return fmt.Sprintf("%s, %s (B) against %s, %s (A)", b, sideKind(c.B), a, sideKind(c.A))
	}
	return fmt.Sprintf("%s: %s (B) against %s (A)", c.A.FullName, sideKind(c.B), sideKind(c.A))
}

// sideKind says whether a run was predicted or measured, and over how many steps.
func sideKind(s compare.Side) string {
	if s.Steps > 1 {
		return fmt.Sprintf("%s, mean of %d steps", s.Kind, s.Steps)
	}
	return s.Kind
}

// A comparedNumber is a number of both runs, and their difference.
type comparedNumber struct{ name, a, b, difference string }

// totalTable compares the whole steps.
func totalTable(c compare.Comparison) table.Table[comparedNumber] {
	a, b := c.Columns()
	stepA, stepB := units.FormatSeconds(c.A.StepTime), units.FormatSeconds(c.B.StepTime)
	rows := []comparedNumber{{"step time", stepA, stepB, ofStep(c, c.StepTimeDifference)}}
	if c.WorkDiffers != nil && !c.ThroughputDifference.IsZero() {
		rate := func(s compare.Side) string { return units.FormatPerSecond(s.Throughput) + " " + c.ThroughputOf + "/s" }
		difference := units.FormatSignedPercent(float64(c.ThroughputDifference))
		rows = slices.Insert(rows, 0, comparedNumber{"throughput", rate(c.A), rate(c.B), difference})
	}
	if c.A.Parts.Compute > 0 || c.B.Parts.Compute > 0 { // otherwise a bubble is meaningless
		points := cell(!c.BubbleDifference.IsZero(), units.FormatPoints(float64(c.BubbleDifference)))
		rows = append(rows, comparedNumber{
			results.BubbleName(c.A.Stages, c.B.Stages), share(c.A.Bubble), share(c.B.Bubble), points,
		})
	}
	if c.A.PeakMemory != 0 || c.B.PeakMemory != 0 {
		difference := peakDifference(c.PeakMemoryDifference)
		rows = append(rows, comparedNumber{"peak memory", peak(c.A.PeakMemory), peak(c.B.PeakMemory), difference})
	}
	return table.Table[comparedNumber]{Rows: rows, Columns: []table.Column[comparedNumber]{
		{Left: true, Cell: func(n comparedNumber) any { return n.name }},
		{Head: a, Cell: func(n comparedNumber) any { return n.a }},
		{Head: b, Cell: func(n comparedNumber) any { return n.b }},
		{Head: "B against A", Cell: func(n comparedNumber) any { return n.difference }},
	}}
}

// peak prints a peak. A peak of 0 is unknown.
func peak(bytes int64) string { return cell(bytes > 0, units.FormatBytes(bytes)) }

// peakDifference prints the difference of two peaks, which may be unknown.
func peakDifference(x compare.Optional) string {
	return cell(!x.IsZero(), units.FormatSignedPercent(float64(x)))
}

// share prints a share, which may be unknown.
func share(x compare.Optional) string { return cell(!x.IsZero(), units.FormatPercent(float64(x))) }

// ofStep prints a fraction of A's step. It is unknown where the step takes no time.
func ofStep(c compare.Comparison, fraction float64) string {
	return cell(c.A.StepTime > 0, units.FormatSignedPercent(fraction))
}

// cell returns a text, or a dash where it is unknown.
func cell(known bool, text string) string {
	if !known {
		return "–"
	}
	return text
}

// A stepPart is a part of the step.
type stepPart struct {
	name        string
	a, b, error float64
	meaning     string // what the difference means
}

// partTable splits the step and its difference into parts.
func partTable(c compare.Comparison) table.Table[stepPart] {
	a, b := c.Columns()
	together := stepPart{name: "together", a: c.A.StepTime, b: c.B.StepTime, error: c.StepTimeDifference}
	return table.Table[stepPart]{Rows: append(stepParts(c), together), Columns: []table.Column[stepPart]{
		{Left: true, Cell: func(p stepPart) any { return p.name }},
		{Head: a, Cell: func(p stepPart) any { return units.FormatSeconds(p.a) }},
		{Head: b, Cell: func(p stepPart) any { return units.FormatSeconds(p.b) }},
		{Head: "of A's step", Cell: func(p stepPart) any { return ofStep(c, p.error) }},
		{Left: true, Cell: func(p stepPart) any { return p.meaning }},
	}}
}

// stepParts lists the parts of the step.
func stepParts(c compare.Comparison) []stepPart {
	x, y, e := c.A.Parts, c.B.Parts, c.ByPart
	list := []stepPart{
		{"compute", x.Compute, y.Compute, e.Compute, "forward, backward and optimizer take %s"},
		{
			"communication", x.Communication, y.Communication, e.Communication,
			"communication that no work hides takes %s",
		},
		{"waiting", x.Waiting, y.Waiting, e.Waiting, "waiting for other ranks takes %s"},
		{"dispatch", x.Dispatch, y.Dispatch, e.Dispatch, "starting work that is ready takes %s"},
	}
	for i, p := range list {
		list[i].meaning = ""
		if how := differenceText(c, p); how != "" {
			list[i].meaning = fmt.Sprintf(p.meaning, how)
		}
	}
	return list
}

// differenceText says how much time a part takes in B compared with A. It is empty where the
// difference is rounding.
func differenceText(c compare.Comparison, p stepPart) string {
	switch difference := p.b - p.a; {
	case math.Abs(difference) <= 1e-9*max(c.A.StepTime, c.B.StepTime):
		return ""
	case c.A.StepTime > 0 && units.FormatSignedPercent(p.error) == units.FormatSignedPercent(0):
		return "as long"
	case p.name == "dispatch" && p.a == 0 && c.A.Kind == results.Predicted && c.B.Kind == results.Measured:
		return "time, but none in the prediction"
	case difference > 0:
		return "longer"
	}
	return "less time"
}

// A comparedKind compares the tasks of a kind.
type comparedKind struct {
	kind graph.Kind
	compare.KindComparison
}

// comparedKinds lists the kinds that are compared, in their order.
func comparedKinds(c compare.Comparison) (list []comparedKind) {
	for k := graph.Forward; k < graph.ReceiveForward; k++ {
		if x, ok := c.ByKind[k.String()]; ok {
			list = append(list, comparedKind{k, x})
		}
	}
	return list
}

// kindTable compares the kinds of task.
func kindTable(c compare.Comparison) table.Table[comparedKind] {
	a, b := c.Columns()
	return table.Table[comparedKind]{Rows: comparedKinds(c), Columns: []table.Column[comparedKind]{
		{Left: true, Cell: func(k comparedKind) any { return k.kind }},
		{Head: a, Cell: func(k comparedKind) any { return cell(k.CountA > 0, units.FormatSeconds(k.MeanA)) }},
		{Head: b, Cell: func(k comparedKind) any { return cell(k.CountB > 0, units.FormatSeconds(k.MeanB)) }},
		{Head: "B against A", Cell: func(k comparedKind) any {
			return cell(k.MeanA > 0 && k.CountB > 0, units.FormatSignedPercent(k.Error))
		}},
		{Head: "tasks", Cell: func(k comparedKind) any {
			if k.CountA != k.CountB {
				return fmt.Sprintf("%d → %d", k.CountA, k.CountB)
			}
			return k.CountA
		}},
		{Head: "of A's step", Cell: func(k comparedKind) any { return ofStep(c, k.OfStep) }},
	}}
}

// rankComparisonTable compares the ranks. It has no peaks if all are unknown.
func rankComparisonTable(c compare.Comparison) table.Table[compare.RankComparison] {
	type rank = compare.RankComparison
	a, b := c.Columns()
	unknown := c.A.PeakMemory == 0 && c.B.PeakMemory == 0
	return table.Table[rank]{Rows: c.ByRank, Excerpt: true, Columns: []table.Column[rank]{
		{Head: "rank", Left: true, Cell: func(r rank) any { return r.Rank }},
		{Over: "busy", Head: a, Cell: func(r rank) any { return units.FormatSeconds(r.BusyA) }},
		{Head: b, Cell: func(r rank) any { return units.FormatSeconds(r.BusyB) }},
		{Head: "of A's step", Cell: func(r rank) any { return ofStep(c, r.BusyError) }},
		{Over: "idle", Head: a, Cell: func(r rank) any { return units.FormatSeconds(r.IdleA) }},
		{Head: b, Cell: func(r rank) any { return units.FormatSeconds(r.IdleB) }},
		{Head: "of A's step", Cell: func(r rank) any { return ofStep(c, r.IdleError) }},
		{Over: "peak memory", Head: a, Hide: unknown, Cell: func(r rank) any { return peak(r.PeakMemoryA) }},
		{Head: b, Hide: unknown, Cell: func(r rank) any { return peak(r.PeakMemoryB) }},
		{Head: "B against A", Hide: unknown, Cell: func(r rank) any { return peakDifference(r.PeakMemoryError) }},
	}}
}

// WriteComparisonCSV writes a row per quantity: what it is of, its name and unit, its value in
// A and B, and B − A.
func WriteComparisonCSV(w io.Writer, c compare.Comparison) error {
	type quantity struct {
		of, item, name string
		a, b           float64
	}
	list := []quantity{
		{"step", "", "time_s", c.A.StepTime, c.B.StepTime},
		{"step", "", "bubble", float64(c.A.Bubble), float64(c.B.Bubble)},
	}
	if !c.ThroughputDifference.IsZero() {
		list = append(list, quantity{"step", "", c.ThroughputOf + "_per_s", c.A.Throughput, c.B.Throughput})
	}
	for _, p := range stepParts(c) {
		list = append(list, quantity{"part", p.name, "time_s", p.a, p.b})
	}
	for _, k := range comparedKinds(c) {
		list = append(list,
			quantity{"kind", k.kind.String(), "count", float64(k.CountA), float64(k.CountB)},
			quantity{"kind", k.kind.String(), "mean_s", k.MeanA, k.MeanB},
			quantity{"kind", k.kind.String(), "total_s", k.TotalA, k.TotalB})
	}
	for _, r := range c.ByRank {
		rank := strconv.Itoa(r.Rank)
		list = append(list,
			quantity{"rank", rank, "busy_s", r.BusyA, r.BusyB},
			quantity{"rank", rank, "idle_s", r.IdleA, r.IdleB},
			quantity{"rank", rank, "peak_memory_bytes", float64(r.PeakMemoryA), float64(r.PeakMemoryB)})
	}
	return table.Table[quantity]{Rows: list, Columns: []table.Column[quantity]{
		{Head: "of", Cell: func(q quantity) any { return q.of }},
		{Head: "item", Cell: func(q quantity) any { return q.item }},
		{Head: "quantity", Cell: func(q quantity) any { return q.name }},
		{Head: "a", Cell: func(q quantity) any { return plain(q.a) }},
		{Head: "b", Cell: func(q quantity) any { return plain(q.b) }},
		{Head: "difference", Cell: func(q quantity) any { return plain(q.b - q.a) }},
	}}.CSV(w)
}

// plain prints a number without an exponent. It is empty where the number is unknown.
func plain(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}
