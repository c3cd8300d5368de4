package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
	"psim/results/rankings"
)

// A sweepRow is a row of the table of a sweep.
type sweepRow struct {
	rankings.SweepPoint
	values     []string // of the varied settings
	efficiency *float64 // nil if it is meaningless
}

func (r sweepRow) result() results.Result { return r.Result }

// sweepRows lists the points of a sweep.
func sweepRows(s rankings.Sweep) []sweepRow {
	rows := make([]sweepRow, len(s.Points))
	for i, efficiency := range s.Efficiencies() {
		rows[i] = sweepRow{s.Points[i], s.Values(s.Points[i]), efficiency}
	}
	return rows
}

// variedColumns makes a column for every varied setting.
func variedColumns(s rankings.Sweep) (columns []table.Column[sweepRow]) {
	for i, v := range s.Vary {
		columns = append(columns, table.Column[sweepRow]{
			Head: v.Key, Left: i == 0, Cell: func(r sweepRow) any { return r.values[i] },
		})
	}
	return columns
}

// resultColumn makes a column with a number of the points' results. A point whose combination is
// impossible has a substitute.
func resultColumn(head, substitute string, cell func(results.Result) any) table.Column[sweepRow] {
	return table.Column[sweepRow]{Head: head, Cell: func(r sweepRow) any {
		if r.Error != "" {
			return substitute
		}
		return cell(r.Result)
	}}
}

// known returns a value that is known, and otherwise an empty cell.
func known(is bool, value any) any {
	if is {
		return value
	}
	return ""
}

// WriteSweepCSV writes a row per point: its index, the varied settings and the numbers of its
// result, or in the last column why it is impossible. Cells of unknown numbers are empty.
func WriteSweepCSV(w io.Writer, s rankings.Sweep) error {
	type result = results.Result
	number := func(head string, cell func(result) any) table.Column[sweepRow] {
		return resultColumn(head, "", cell)
	}
	rate := func(head string, of func(result) float64) table.Column[sweepRow] { // 0 is unknown
		return number(head, func(r result) any { return known(of(r) != 0, of(r)) })
	}
	columns := []table.Column[sweepRow]{{Head: "index", Cell: func(r sweepRow) any { return r.Index }}}
	columns = append(columns, variedColumns(s)...)
	columns = append(columns,
		number("schedule", func(r result) any { return r.Schedule }),
		number("stages", func(r result) any { return r.Stages }),
		number("virtual_stages", func(r result) any { return r.VirtualStages }),
		number("microbatches", func(r result) any { return r.Microbatches }),
		number("data_parallel", func(r result) any { return r.DataParallel }),
		number("tensor_parallel", func(r result) any { return r.TensorParallel }),
		number("devices", func(r result) any { return r.Devices }),
		number("step_time_s", func(r result) any { return r.StepTime }),
		number("makespan_s", func(r result) any { return r.Makespan }),
		number("bubble_makespan", func(r result) any { return r.Bubble.Makespan }),
		number("bubble_span", func(r result) any { return r.Bubble.Span }),
		rate("samples_per_s", func(r result) float64 { return r.Throughput.Samples }),
		rate("tokens_per_s", func(r result) float64 { return r.Throughput.Tokens }),
		rate("tokens_per_s_per_device", func(r result) float64 { return r.TokensPerDevice }),
		rate("mfu", func(r result) float64 { return r.MFU }),
		rate("hfu", func(r result) float64 { return r.HFU }),
		number("peak_memory_bytes", func(r result) any { return known(r.UsesMemory(), r.PeakMemory()) }),
		number("fits_memory", func(r result) any { return known(r.MemoryVerdict != "", r.FitsMemory) }),
		number("memory_verdict", func(r result) any { return r.MemoryVerdict }),
		number("epoch_time_s", func(r result) any {
			if r.Epochs == nil {
				return ""
			}
			return r.Epochs.Time
		}),
		rate("microbatches_per_s", result.MicrobatchesPerSecond),
		table.Column[sweepRow]{Head: "efficiency", Cell: func(r sweepRow) any {
			if r.efficiency == nil {
				return ""
			}
			return *r.efficiency
		}},
		table.Column[sweepRow]{Head: "error", Cell: func(r sweepRow) any { return r.Error }},
	)
	return table.Table[sweepRow]{Columns: columns, Rows: sweepRows(s)}.CSV(w)
}

// WriteSweep prints a row per point for people.
func WriteSweep(w io.Writer, s rankings.Sweep) error {
	out := table.NewPage(w)
	sweepTable(s).Text(out)
	explainSweep(s, out)
	return out.Flush()
}

// sweepTable makes the table of the points. MFU, epochs and efficiency have columns if some
// points have them.
func sweepTable(s rankings.Sweep) table.Table[sweepRow] {
	type result = results.Result
	const unknown = "–"
	rows, rate := sweepRows(s), sweepPace(s.Points)
	none := func(has func(sweepRow) bool) bool { return !slices.ContainsFunc(rows, has) }
	columns := append(variedColumns(s),
		resultColumn("devices", unknown, func(r result) any { return r.Devices }),
		resultColumn("step time", unknown, func(r result) any { return units.FormatSeconds(r.StepTime) }),
		resultColumn(bubbleHead(sweepRow.result, rows), unknown, func(r result) any {
			return units.FormatPercent(r.Bubble.Makespan)
		}),
		resultColumn(rate.head, unknown, func(r result) any {
			return cell(rate.of(r) > 0, units.FormatPerSecond(max(0, rate.of(r))))
		}),
		resultColumn("peak memory", unknown, func(r result) any { return peakText(r) }),
		resultColumn("fits", unknown, func(r result) any { return fitsText(r) }),
		resultColumn("MFU", unknown, func(r result) any { return units.FormatPercent(r.MFU) }),
		resultColumn("epoch", unknown, func(r result) any {
			if r.Epochs == nil {
				return unknown
			}
			return units.FormatSeconds(r.Epochs.Time)
		}),
		table.Column[sweepRow]{Head: "efficiency", Cell: func(r sweepRow) any {
			if r.efficiency == nil {
				return ""
			}
			return units.FormatPercent(*r.efficiency)
		}},
	)
	optional := columns[len(columns)-3:]
	optional[0].Hide = none(func(r sweepRow) bool { return r.Result.MFU > 0 })
	optional[1].Hide = none(func(r sweepRow) bool { return r.Result.Epochs != nil })
	optional[2].Hide = none(func(r sweepRow) bool { return r.efficiency != nil })
	return table.Table[sweepRow]{Columns: columns, Rows: rows}
}

// explainSweep says which point that fits, with the margin that is set, does the most work in a
// second, and why some points have no result. Points of different work have no best.
func explainSweep(s rankings.Sweep, out table.Page) {
	fits := slices.DeleteFunc(slices.Clone(s.Points), func(p rankings.SweepPoint) bool {
		return p.Error != "" || !p.Result.Fits()
	})
	if len(fits) > 1 && differentWork(possible(s.Points)) == "" {
		rate := sweepPace(s.Points)
		best := slices.MaxFunc(fits, func(a, b rankings.SweepPoint) int {
			return cmp.Compare(rate.of(a.Result), rate.of(b.Result))
		})
		out.Print("\n%s: --set %s\n", rate.most, strings.Join(best.Set, " --set "))
	}
	if text := nothingFits(possible(s.Points)); text != "" {
		out.Print("\n%s\n", text)
	}
	out.Warn(sweepWarnings(s))
	explainImpossible(s, out)
}

// nothingFits says that no point fits, and which search looks for a plan that does; "" if one fits
// or if a limit is not known.
func nothingFits(points []rankings.SweepPoint) string {
	var devices []string
	for _, p := range points {
		if p.Result.MemoryVerdict == "" || p.Result.FitsMemory {
			return ""
		}
		if n := strconv.Itoa(p.Result.Devices); p.Result.Parameters > 0 && !slices.Contains(devices, n) {
			devices = append(devices, n)
		}
	}
	switch {
	case points == nil:
		return ""
	case devices == nil:
		return "no point fits in memory"
	}
	return "no point fits in memory; psim search CONFIG --devices " + strings.Join(devices, ",") +
		", with the same settings, looks for a plan that does"
}

// A pace says how much work a run does in a second.
type pace struct {
	head string // of a column
	most string // the best of several
	key  string // of pictures
	of   func(results.Result) float64
}

// SweepKey returns the key of the number that sweep.png shows: that by which the text compares points,
// or the step time if it is not known of all.
func SweepKey(points []rankings.SweepPoint) string {
	rate := sweepPace(points)
	for _, p := range points {
		if p.Error == "" && rate.of(p.Result) <= 0 {
			return stepTimeKey
		}
	}
	return rate.key
}

const stepTimeKey = "step_time_s"

// sweepPace returns the pace by which points compare: in samples, or in tokens if sequences, or what is packed
// into them, differ in length. Without a batch it is in microbatches, and without training the step counts.
func sweepPace(points []rankings.SweepPoint) pace {
	var samples, trained bool
	lengths := map[string]bool{}
	for _, p := range points {
		samples = samples || p.Result.Throughput.Samples > 0
		trained = trained || trains(p.Result)
		if p.Result.Throughput.Tokens > 0 {
			samples := slices.DeleteFunc(slices.Clone(p.Set), func(set string) bool {
				return !strings.HasPrefix(set, "data.")
			})
			lengths[fmt.Sprint(p.Result.SequenceLength, samples)] = true
		}
	}
	switch {
	case len(lengths) > 1:
		return pace{
			"tokens/s", "the highest throughput, in tokens", "throughput.tokens_per_s",
			func(r results.Result) float64 { return r.Throughput.Tokens },
		}
	case trained && !samples:
		return pace{
			"microbatches/s", "the highest throughput, in microbatches", "microbatches_per_s",
			results.Result.MicrobatchesPerSecond,
		}
	case !samples:
		step := func(r results.Result) float64 { return -r.StepTime }
		return pace{"samples/s", "the shortest step", stepTimeKey, step}
	}
	return pace{
		"samples/s", "the highest throughput", "throughput.samples_per_s",
		func(r results.Result) float64 { return r.Throughput.Samples },
	}
}

// possible returns the points that have a result.
func possible(points []rankings.SweepPoint) []rankings.SweepPoint {
	return slices.DeleteFunc(slices.Clone(points), func(p rankings.SweepPoint) bool { return p.Error != "" })
}

// sweepWarnings lists what all points warn of, and points that [times] of each stage give
// different work.
func sweepWarnings(s rankings.Sweep) (warnings []string) {
	list := possible(s.Points)
	if len(list) == 0 {
		return nil
	}
	for _, warning := range list[0].Result.Warnings {
		if !slices.ContainsFunc(list, func(p rankings.SweepPoint) bool {
			return !slices.Contains(p.Result.Warnings, warning)
		}) {
			warnings = append(warnings, warning)
		}
	}
	if different := differentWork(list); different != "" {
		warnings = append(warnings, different)
	}
	return warnings
}

// differentWork says that the same [times] of each stage give points different work, or returns "".
func differentWork(list []rankings.SweepPoint) string {
	if len(list) == 0 {
		return ""
	}
	first := list[0].Result
	least, most := first.StagesWithTimes(), first.StagesWithTimes()
	for _, p := range list {
		if n := p.Result.StagesWithTimes(); n != first.StagesWithTimes() && first.SameTimes(p.Result) {
			least, most = min(least, n), max(most, n)
		}
	}
	if least == most {
		return ""
	}
	return fmt.Sprintf("the same [times] are of each stage: a microbatch is more work in %d stages than in %d, "+
		"so that none is the best; psim search divides times", most, least)
}

// explainImpossible prints why combinations are impossible, each reason once.
func explainImpossible(s rankings.Sweep, out table.Page) {
	var reasons []string
	points, count := 0, map[string]int{}
	for _, p := range s.Points {
		if p.Error == "" {
			continue
		}
		points++
		if count[p.Error]++; count[p.Error] == 1 {
			reasons = append(reasons, p.Error)
		}
	}
	if points > 0 {
		out.Print("\n%s cannot be:\n", units.Plural(points, "combination"))
	}
	const most = 5
	for i, reason := range reasons {
		if i == most {
			out.Print("  … and %s more, in --csv\n", units.Plural(len(reasons)-most, "reason"))
			return
		}
		if n := count[reason]; n > 1 {
			reason += fmt.Sprintf(" (%d times)", n)
		}
		out.Print("  %s\n", reason)
	}
}
