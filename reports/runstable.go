package reports

import (
	"cmp"
	"io"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
	"psim/results/compare"
)

// WriteRuns prints several measured results beside their predictions: a line
// each for what was predicted and measured, on average over the steps, where the error
// comes from, and the checks.
func WriteRuns(w io.Writer, runs []results.Result) error {
	out := table.NewPage(w)
	compared := make([]compare.Comparison, len(runs))
	for i, r := range runs {
		if r.Predicted != nil {
			compared[i] = compare.Compare(results.Run{Result: *r.Predicted}, results.Run{Result: r})
		}
	}
	out.Table(beside(runs, compared))
	out.Section("where the error comes from, as shares of the predicted step", partRows(runs, compared))
	if rows := checkRows(runs); len(rows) > 1 {
		out.Section("largest differences from the unsplit run", rows)
	}
	return out.Flush()
}

// beside makes the table of predictions beside measurements.
func beside(runs []results.Result, compared []compare.Comparison) [][]string {
	rows := [][]string{{"", "step time:", "predicted", "measured (mean)", "error", "bubble:", "predicted", "measured", "peak memory:", "predicted", "ledger"}}
	for i, r := range runs {
		c := compared[i]
		rows = append(rows, []string{
			mode(r), "", units.FormatSeconds(c.A.StepTime), measuredStep(r), units.FormatSignedPercent(c.StepTimeDifference),
			"", share(c.A.Bubble), share(compare.Maybe(r.Bubble.Makespan)),
			"", units.FormatBytes(c.A.PeakMemory), units.FormatBytes(c.B.PeakMemory),
		})
	}
	return rows
}

func mode(r results.Result) string { return cmp.Or(r.ScheduleText(), r.Name) }

func partRows(runs []results.Result, compared []compare.Comparison) [][]string {
	rows := [][]string{{"", "compute", "communication", "waiting", "dispatch", "together"}}
	for i, r := range runs {
		p := compared[i].ByPart
		rows = append(rows, []string{
			mode(r), units.FormatSignedPercent(p.Compute), units.FormatSignedPercent(p.Communication),
			units.FormatSignedPercent(p.Waiting), units.FormatSignedPercent(p.Dispatch), units.FormatSignedPercent(compared[i].StepTimeDifference),
		})
	}
	return rows
}

// checkRows makes the table of checks; only a heading if nothing was checked.
func checkRows(runs []results.Result) [][]string {
	rows := [][]string{{"", "weights", "outputs", "gradients", "loss", "first loss", "last loss", "checks"}}
	for _, r := range runs {
		if r.Measurement == nil || r.Checks == nil {
			continue
		}
		c := r.Checks
		row := []string{mode(r)}
		for _, x := range []*float64{c.Weights, c.Outputs, c.Gradients, c.LossDifference} {
			row = append(row, numberOrNone(x, 3))
		}
		row = append(row, numberOrNone(c.LossFirst, 5), numberOrNone(c.LossLast, 5), verdict(c.Passed))
		rows = append(rows, row)
	}
	return rows
}

func verdict(passed bool) string {
	if passed {
		return "passed"
	}
	return "FAILED"
}

func numberOrNone(x *float64, precision int) string {
	if x == nil {
		return "-"
	}
	return digits(*x, precision)
}
