package reports

import (
	"cmp"
	"io"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
	"psim/results/compare"
)

// A comparedRun is a measured result, and the comparison of the step that pictures show with its
// prediction.
type comparedRun struct {
	measured results.Result
	with     compare.Comparison // A is the prediction, B the step of median time
}

// WriteRuns prints several measured runs next to their predictions: what was predicted and
// measured, where the errors come from, and the checks. Errors and bubbles are of the step of median
// time, as in the pictures.
func WriteRuns(w io.Writer, runs []results.Run) error {
	out := table.NewPage(w)
	compared := make([]comparedRun, len(runs))
	var checked []results.Result
	for i, r := range runs {
		compared[i].measured = r.Result
		if p := r.Result.Predicted; p != nil {
			compared[i].with = compare.Compare(results.Run{Result: *p}, results.Run{Result: r.Shown()})
		}
		if r.Result.Measurement != nil && r.Result.Checks != nil {
			checked = append(checked, r.Result)
		}
	}
	measuredTable(compared).Text(out)
	out.Section("where the error comes from in the median step, as shares of the predicted step")
	errorTable(compared).Text(out)
	if len(checked) > 0 {
		out.Section("largest differences from " + cmp.Or(checked[0].Checks.Reference, "the unsplit run"))
		checkTable(checked).Text(out)
	}
	return out.Flush()
}

// measuredTable makes the table of predictions and measurements.
func measuredTable(runs []comparedRun) table.Table[comparedRun] {
	measured := func(r comparedRun) results.Result { return r.measured }
	percent, empty := units.FormatSignedPercent, func(comparedRun) any { return "" }
	return table.Table[comparedRun]{Rows: runs, Columns: []table.Column[comparedRun]{
		{Left: true, Cell: func(r comparedRun) any { return mode(r.measured) }},
		{Head: "step time:", Cell: empty},
		{Head: "predicted", Cell: func(r comparedRun) any { return units.FormatSeconds(r.with.A.StepTime) }},
		{Head: "median", Cell: func(r comparedRun) any { return units.FormatSeconds(r.with.B.StepTime) }},
		{Head: "its error", Cell: func(r comparedRun) any { return percent(r.with.StepTimeDifference) }},
		{Head: "mean ± std", Cell: func(r comparedRun) any { return measuredStep(r.measured) }},
		{Head: bubbleHead(measured, runs) + ":", Cell: empty},
		{Head: "predicted", Cell: func(r comparedRun) any { return share(r.with.A.Bubble) }},
		{Head: "median step", Cell: func(r comparedRun) any { return share(r.with.B.Bubble) }},
		{Head: "peak memory:", Cell: empty},
		{Head: "predicted", Cell: func(r comparedRun) any { return peak(r.with.A.PeakMemory) }},
		{Head: "ledger", Cell: func(r comparedRun) any { return peak(r.with.B.PeakMemory) }},
	}}
}

// mode names a run among several by its schedule.
func mode(r results.Result) string { return cmp.Or(r.ScheduleText(), r.Name) }

// errorTable makes the table of the parts of the error.
func errorTable(runs []comparedRun) table.Table[comparedRun] {
	percent := units.FormatSignedPercent
	return table.Table[comparedRun]{Rows: runs, Columns: []table.Column[comparedRun]{
		{Left: true, Cell: func(r comparedRun) any { return mode(r.measured) }},
		{Head: "compute", Cell: func(r comparedRun) any { return percent(r.with.ByPart.Compute) }},
		{Head: "communication", Cell: func(r comparedRun) any { return percent(r.with.ByPart.Communication) }},
		{Head: "waiting", Cell: func(r comparedRun) any { return percent(r.with.ByPart.Waiting) }},
		{Head: "dispatch", Cell: func(r comparedRun) any { return percent(r.with.ByPart.Dispatch) }},
		{Head: "together", Cell: func(r comparedRun) any { return percent(r.with.StepTimeDifference) }},
	}}
}

// checkTable makes the table of checks of runs that were checked.
func checkTable(runs []results.Result) table.Table[results.Result] {
	return table.Table[results.Result]{Rows: runs, Columns: []table.Column[results.Result]{
		{Left: true, Cell: func(r results.Result) any { return mode(r) }},
		{Head: "weights", Cell: func(r results.Result) any { return optionalDigits(r.Checks.Weights, 3) }},
		{Head: "outputs", Cell: func(r results.Result) any { return optionalDigits(r.Checks.Outputs, 3) }},
		{Head: "gradients", Cell: func(r results.Result) any { return optionalDigits(r.Checks.Gradients, 3) }},
		{Head: "loss", Cell: func(r results.Result) any { return optionalDigits(r.Checks.LossDifference, 3) }},
		{Head: "first loss", Cell: func(r results.Result) any { return optionalDigits(r.Checks.LossFirst, 5) }},
		{Head: "last loss", Cell: func(r results.Result) any { return optionalDigits(r.Checks.LossLast, 5) }},
		{Head: "checks", Cell: func(r results.Result) any { return r.Checks.Verdict() }},
	}}
}

// runTable makes the table of the runs of a result.
func runTable(runs []results.Result) table.Table[results.Result] {
	itself := func(r results.Result) results.Result { return r }
	return table.Table[results.Result]{Rows: runs, Columns: []table.Column[results.Result]{
		{Head: "run", Left: true, Cell: func(r results.Result) any { return mode(r) }},
		{Head: "step time", Cell: func(r results.Result) any { return measuredStep(r) }},
		{Head: "predicted", Cell: func(r results.Result) any {
			if r.Predicted == nil {
				return ""
			}
			return units.FormatSeconds(r.Predicted.StepTime)
		}},
		{Head: "error", Cell: func(r results.Result) any {
			if r.Predicted == nil || r.Predicted.StepTime <= 0 {
				return ""
			}
			return units.FormatSignedPercent(r.StepTime/r.Predicted.StepTime - 1)
		}},
		{Head: bubbleHead(itself, runs), Cell: func(r results.Result) any { return bubbleShare(r) }},
		{Head: "checks", Cell: func(r results.Result) any {
			if r.Measurement == nil || r.Checks == nil {
				return ""
			}
			return r.Checks.Verdict()
		}},
	}}
}

// bubbleShare prints the bubble as a share of the makespan.
func bubbleShare(r results.Result) string { return share(compare.Optional(r.Bubble.Makespan)) }

// bubbleHead names the bubbles of rows with results.
func bubbleHead[T any](of func(T) results.Result, rows []T) string {
	var stages []int
	for _, row := range rows {
		if r := of(row); r.Kind != "" { // else it is an impossible combination
			stages = append(stages, r.Stages)
		}
	}
	return results.BubbleName(stages...)
}

// optionalDigits prints a number, or a dash where it is unknown.
func optionalDigits(x *float64, precision int) string {
	if x == nil {
		return "-"
	}
	return digits(*x, precision)
}
