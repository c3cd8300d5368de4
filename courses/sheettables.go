package courses

import (
	"fmt"
	"math"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
)

// writeRuns writes a table of all runs: what each method costs in memory and in
// communication, how long a step takes, and how far predictions are from measurements.
func (r *Reproduction) writeRuns(b *strings.Builder) {
	b.WriteString("\n## All runs\n\nPredicted at the assignment's own size; memory and bytes sent are those of the " +
		"worker with the most, time is averaged over the workers.")
	if r.course.Epochs {
		b.WriteString(" The throughput is that of an epoch, whose last step may have fewer samples; `psim run` " +
			"prints that of a whole step.")
	}
	b.WriteString("\n\n")
	if r.course.Note != "" {
		fmt.Fprintf(b, "%s\n\n", r.course.Note)
	}
	type run = *ReproducedRun
	yesNo := map[bool]string{true: "yes", false: "no"}
	working := func(r results.RankResult) float64 { return r.Compute + r.Optimizer }
	idle := func(r results.RankResult) float64 { return r.Idle }
	table.Table[run]{Rows: r.Runs, Columns: []table.Column[run]{
		{Head: "run", Left: true, Cell: func(r run) any { return r.Name }},
		{Head: "asked for", Left: true, Cell: func(r run) any { return yesNo[r.Asked] }},
		{Head: "step", Cell: func(r run) any { return units.FormatSeconds(r.Predicted.StepTime) }},
		{Head: "epoch", Hide: !r.course.Epochs, Cell: func(r run) any { return epochTime(r.Predicted) }},
		{Head: "throughput", Cell: func(r run) any { return rate(r.Predicted) }},
		{Head: "computation and update", Cell: func(r run) any { return mean(r.Predicted, working) }},
		{Head: "exposed communication", Cell: func(r run) any { return mean(r.Predicted, exposed) }},
		{Head: "idle", Cell: func(r run) any { return mean(r.Predicted, idle) }},
		{Head: "bubble", Cell: func(r run) any {
			if r.Predicted.Stages <= 1 {
				return "–"
			}
			return bubble(r.Predicted)
		}},
		{Head: "memory", Cell: func(r run) any { return units.FormatBytes(r.Predicted.PeakMemory()) }},
		{Head: "sent a step", Cell: func(r run) any { return units.FormatBytes(sent(r.Predicted)) }},
	}}.Markdown(b)
	if r.MeasuredOn != "" {
		r.writeMeasured(b)
	}
}

// writeMeasured writes a table of the measurements, with their own predictions.
func (r *Reproduction) writeMeasured(b *strings.Builder) {
	b.WriteString("\nMeasured, each next to the prediction of the same smaller run; " +
		"a star marks a disturbed machine.\n\n")
	type result = *results.Result
	var measured []result
	names := map[result]string{}
	for _, run := range r.Runs {
		if run.measured != nil {
			measured = append(measured, run.Measured)
			names[run.Measured] = run.Name
		}
	}
	star := map[bool]string{true: "*"}
	table.Table[result]{Rows: measured, Columns: []table.Column[result]{
		{Head: "run", Left: true, Cell: func(m result) any { return names[m] }},
		{Head: "samples a step", Cell: func(m result) any {
			return fmt.Sprintf("%.0f", m.Throughput.Samples*m.StepTime)
		}},
		{Head: "steps", Cell: func(m result) any { return len(m.Steps) }},
		{Head: "step, predicted", Cell: func(m result) any { return units.FormatSeconds(m.Predicted.StepTime) }},
		{Head: "step, measured", Cell: func(m result) any {
			return units.FormatSeconds(m.StepTime) + " ± " + units.FormatSeconds(m.StepTimeStd) + star[m.Disturbed]
		}},
		{Head: "off by", Cell: func(m result) any {
			return units.FormatSignedPercent(m.StepTime/m.Predicted.StepTime - 1)
		}},
		{Head: "epoch", Hide: !r.course.Epochs, Cell: func(m result) any { return epochTime(*m) }},
		{Head: "throughput", Cell: func(m result) any { return rate(*m) }},
		{Head: r.bubbleName(), Cell: func(m result) any { return bubble(*m) }},
		{Head: "memory", Cell: func(m result) any { return units.FormatBytes(m.PeakMemory()) }},
	}}.Markdown(b)
}

// bubbleName names the bubbles of all runs.
func (r *Reproduction) bubbleName() string {
	var stages []int
	for _, run := range r.Runs {
		stages = append(stages, run.Predicted.Stages)
	}
	return results.BubbleName(stages...)
}

// bubble writes the bubble as a share of the makespan.
func bubble(r results.Result) string { return fmt.Sprintf("%.1f %%", 100*r.Bubble.Makespan) }

// epochTime writes the time of an epoch, if it is known.
func epochTime(r results.Result) string {
	switch e := r.Epochs; {
	case e == nil:
		return ""
	case e.Each == nil:
		return units.FormatSeconds(e.Time)
	default:
		return units.FormatSeconds(e.Time) + " ± " + units.FormatSeconds(e.TimeStd)
	}
}

// throughput returns the rate of a result: over its epochs, if it knows them.
func throughput(r results.Result) results.Throughput {
	if r.Epochs != nil {
		return r.Epochs.Throughput
	}
	return r.Throughput
}

// rate writes a throughput, in tokens if there are any.
func rate(r results.Result) string {
	if t := throughput(r).Tokens; t > 0 {
		return units.FormatCount(int64(math.Round(t))) + " tokens/s"
	}
	return fmt.Sprintf("%.3g samples/s", throughput(r).Samples)
}

// mean writes a time of the ranks, on average.
func mean(r results.Result, of func(results.RankResult) float64) string {
	return units.FormatSeconds(average(r, of))
}

func average(r results.Result, of func(results.RankResult) float64) (mean float64) {
	for _, rank := range r.Ranks {
		mean += of(rank) / float64(len(r.Ranks))
	}
	return mean
}

// sent returns the bytes that the rank with the most sends in a step.
func sent(r results.Result) (most int64) {
	for _, rank := range r.Ranks {
		most = max(most, rank.SentBytes)
	}
	return most
}
