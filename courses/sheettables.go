package courses

import (
	"fmt"
	"strings"

	"psim/internal/units"
	"psim/results"
)

// writeRuns writes a table of all runs: what each method costs in memory and in
// communication, how long a step takes, and how far predictions are from measurements.
func (r *Reproduction) writeRuns(b *strings.Builder) {
	fmt.Fprintf(b, "\n## All runs\n\nPredicted at the assignment's own size; memory and bytes sent are those of the "+
		"worker with the most, time is averaged over the workers.\n\n"+
		"| run | asked for | step%s | throughput | computation and update | exposed communication | idle | bubble | "+
		"memory | sent a step |\n|---|---|--:%s|--:|--:|--:|--:|--:|--:|--:|\n",
		r.epochColumn(" | epoch"), r.epochColumn("|--:"))
	for _, run := range r.Runs {
		p := run.Predicted
		working := mean(p, func(r results.RankResult) float64 { return r.Compute + r.Optimizer })
		idle := mean(p, func(r results.RankResult) float64 { return r.Idle })
		asked := map[bool]string{true: "yes", false: "no"}[run.Asked]
		fmt.Fprintf(b, "| %s | %s | %s%s | %s | %s | %s | %s | %.1f %% | %s | %s |\n",
			run.Name, asked, units.FormatSeconds(p.StepTime), epochTime(p), rate(p), working, mean(p, exposed), idle,
			100*p.Bubble.Makespan, units.FormatBytes(p.PeakMemory()), units.FormatBytes(sent(p)))
	}
	if r.MeasuredOn != "" {
		r.writeMeasured(b)
	}
}

// writeMeasured writes a table of what was measured, with its own predictions.
func (r *Reproduction) writeMeasured(b *strings.Builder) {
	fmt.Fprintf(b, "\nMeasured, each beside the prediction of the same smaller run; a star marks a disturbed "+
		"machine.\n\n| run | samples a step | steps | step, predicted | step, measured | off by%s | throughput | "+
		"bubble | memory |\n|---|--:|--:|--:|--:|--:%s|--:|--:|--:|\n",
		r.epochColumn(" | epoch"), r.epochColumn("|--:"))
	for _, run := range r.Runs {
		if run.measured == nil {
			continue
		}
		m := *run.Measured
		star := map[bool]string{true: "*"}[m.Disturbed]
		fmt.Fprintf(b, "| %s | %.0f | %d | %s | %s ± %s%s | %s%s | %s | %.1f %% | %s |\n",
			run.Name, m.Throughput.Samples*m.StepTime, len(m.Steps), units.FormatSeconds(m.Predicted.StepTime),
			units.FormatSeconds(m.StepTime), units.FormatSeconds(m.StepTimeStd), star,
			units.FormatSignedPercent(m.StepTime/m.Predicted.StepTime-1), epochTime(m), rate(m),
			100*m.Bubble.Makespan, units.FormatBytes(m.PeakMemory()))
	}
}

// epochColumn returns what a column for the time of an epoch adds to a line of a table.
func (r *Reproduction) epochColumn(text string) string {
	if r.course.Epochs {
		return text
	}
	return ""
}

// epochTime writes the column of the time of an epoch, if a result has one.
func epochTime(r results.Result) string {
	switch e := r.Epochs; {
	case e == nil:
		return ""
	case e.Each == nil:
		return " | " + units.FormatSeconds(e.Time)
	default:
		return " | " + units.FormatSeconds(e.Time) + " ± " + units.FormatSeconds(e.TimeStd)
	}
}

// rate writes a throughput, in tokens if there are any.
func rate(r results.Result) string {
	if t := r.Throughput.Tokens; t > 0 {
		return units.FormatCount(int64(t)) + " tokens/s"
	}
	return fmt.Sprintf("%.3g samples/s", r.Throughput.Samples)
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
