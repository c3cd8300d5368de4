package courses

import (
	"fmt"
	"io"
	"math"
	"strings"

	"psim/internal/units"
	"psim/results"
)

// WriteMarkdown writes the sheet of answers: what was predicted and measured and in
// what sizes, every figure with its numbers, and the questions.
func (r *Reproduction) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.course.title)
	r.writeOrigin(&b)
	for _, t := range r.course.tasks {
		r.writeTask(&b, t)
	}
	r.writeRuns(&b)
	r.writeCommands(&b)
	r.writeQuestions(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeOrigin says where the numbers come from.
func (r *Reproduction) writeOrigin(b *strings.Builder) {
	fmt.Fprintf(b, "Made by `psim reproduce %s`. **Predicted** is what psim's simulator says for %s, at the assignment's own size; `psim validate --published %s` tells how far off it is from what others measured there.", r.Course, r.course.machine, r.course.published)
	if r.MeasuredOn == "" {
		b.WriteString(" Nothing was measured: `--measure` runs it.\n")
		return
	}
	fmt.Fprintf(b, " **Measured** is what psim's own workers took on this machine (%s); ", r.MeasuredOn)
	b.WriteString("beside it stands a prediction of the same, smaller run, from its tasks measured alone. The figures in this folder show these two, and those in " +
		predictedFolder + " the predictions at the assignment's own size.\n")
	if list := append(r.Shrunk, r.fewerSteps()...); len(list) > 0 {
		fmt.Fprintf(b, "\nMeasured runs are shrunk to end in time: %s.\n", strings.Join(list, "; "))
	}
	if shared := r.names(func(run *Run) bool { return run.measured != nil && run.shared() }); len(shared) > 0 {
		fmt.Fprintf(b, "\nOversubscribed, with more workers than cores, so that their times say little about workers of their own: %s.\n", strings.Join(shared, ", "))
	}
	if disturbed := r.names(func(run *Run) bool { return run.measured != nil && run.Measured.Disturbed }); len(disturbed) > 0 {
		fmt.Fprintf(b, "\nSomething else ran on the machine, or the steps were uneven, during: %s.\n", strings.Join(disturbed, ", "))
	}
	for _, asked := range []bool{true, false} {
		var missing []string
		for _, run := range r.Runs {
			if run.Asked == asked && run.measured == nil {
				missing = append(missing, fmt.Sprintf("%s (%s)", run.Name, run.LeftOut))
			}
		}
		if len(missing) > 0 {
			fmt.Fprintf(b, "\nNot measured, %s: %s.\n", map[bool]string{true: "although the assignment asks for it", false: "and not asked for"}[asked], strings.Join(missing, ", "))
		}
	}
}

// fewerSteps says of how few steps or epochs the measured runs are.
func (r *Reproduction) fewerSteps() []string {
	fewest, most := math.MaxInt, 0
	for _, run := range r.Runs {
		if run.measured != nil {
			n := r.course.counted(*run.Measured)
			fewest, most = min(n, fewest), max(most, n)
		}
	}
	switch {
	case fewest >= r.course.count:
		return nil
	case fewest == most:
		return []string{fmt.Sprintf("%s instead of %d", units.Plural(most, r.course.unit()), r.course.count)}
	}
	return []string{fmt.Sprintf("%d to %s instead of %d", fewest, units.Plural(most, r.course.unit()), r.course.count)}
}

// names lists the runs that something is true of.
func (r *Reproduction) names(is func(*Run) bool) (list []string) {
	for _, run := range r.Runs {
		if is(run) {
			list = append(list, run.Name)
		}
	}
	return list
}

// writeTask shows the figures that a part of the assignment asks for, and their numbers.
func (r *Reproduction) writeTask(b *strings.Builder, t task) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", t.title, t.asks)
	for _, measured := range []bool{false, true} {
		text := ""
		if t.says != nil {
			text = t.says(func(name string) *results.Result { return r.find(name).result(measured) })
		}
		if text != "" {
			fmt.Fprintf(b, "\n**%s.** %s\n", map[bool]string{false: "Predicted", true: "Measured"}[measured], text)
		}
	}
	for _, path := range t.figures {
		f := r.course.figure(path)
		measured := r.shows(f)
		kind := results.Predicted
		if measured {
			kind = "measured, beside its prediction"
		}
		fmt.Fprintf(b, "\n![%s](%s)\n\n*%s: %s.*", f.caption, path, upper(f.caption), kind)
		if measured {
			fmt.Fprintf(b, " At the assignment's own size, predicted: [%s](%[1]s).", predictedFolder+path)
		}
		b.WriteString("\n")
	}
}

// figure returns that of a path.
func (c course) figure(path string) figure {
	for _, f := range c.figures {
		if f.path == path {
			return f
		}
	}
	return figure{}
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// writeRuns writes a table of all runs: what each method costs in memory and in
// communication, how long a step takes, and how far predictions are from measurements.
func (r *Reproduction) writeRuns(b *strings.Builder) {
	fmt.Fprintf(b, "\n## All runs\n\nPredicted at the assignment's own size; memory and bytes sent are those of the worker with the most, time is averaged over the workers.\n\n"+
		"| run | asked for | step%s | throughput | computation and update | exposed communication | idle | bubble | memory | sent a step |\n|---|---|--:%s|--:|--:|--:|--:|--:|--:|--:|\n", r.epochColumn(" | epoch"), r.epochColumn("|--:"))
	for _, run := range r.Runs {
		p := run.Predicted
		fmt.Fprintf(b, "| %s | %s | %s%s | %s | %s | %s | %s | %.1f %% | %s | %s |\n", run.Name, yes(run.Asked), units.FormatSeconds(p.StepTime), epochTime(p), rate(p),
			mean(p, func(r results.RankResult) float64 { return r.Compute + r.Optimizer }),
			mean(p, exposed),
			mean(p, func(r results.RankResult) float64 { return r.Idle }),
			100*p.Bubble.Makespan, units.FormatBytes(p.PeakMemory()), units.FormatBytes(sent(p)))
	}
	if r.MeasuredOn != "" {
		r.writeMeasured(b)
	}
}

// writeMeasured writes a table of what was measured, beside its own prediction.
func (r *Reproduction) writeMeasured(b *strings.Builder) {
	fmt.Fprintf(b, "\nMeasured, each beside the prediction of the same smaller run; a star marks a disturbed machine.\n\n"+
		"| run | samples a step | steps | step, predicted | step, measured | off by%s | throughput | bubble | memory |\n|---|--:|--:|--:|--:|--:%s|--:|--:|--:|\n", r.epochColumn(" | epoch"), r.epochColumn("|--:"))
	for _, run := range r.Runs {
		if run.measured == nil {
			continue
		}
		m := *run.Measured
		star := map[bool]string{true: "*"}[m.Disturbed]
		fmt.Fprintf(b, "| %s | %.0f | %d | %s | %s ± %s%s | %s%s | %s | %.1f %% | %s |\n", run.Name, m.Throughput.Samples*m.StepTime, len(m.Steps),
			units.FormatSeconds(m.Predicted.StepTime), units.FormatSeconds(m.StepTime), units.FormatSeconds(m.StepTimeStd), star,
			units.FormatSignedPercent(m.StepTime/m.Predicted.StepTime-1), epochTime(m), rate(m), 100*m.Bubble.Makespan, units.FormatBytes(m.PeakMemory()))
	}
}

// epochColumn returns what a column for the time of an epoch adds to a line of a table.
func (r *Reproduction) epochColumn(text string) string {
	if r.course.epochs {
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

// writeCommands says how to predict every run by itself.
func (r *Reproduction) writeCommands(b *strings.Builder) {
	b.WriteString("\nEach prediction by itself:\n\n```sh\n")
	for _, run := range r.Runs {
		fmt.Fprintln(b, run.Command)
	}
	b.WriteString("```\n")
}

func yes(is bool) string { return map[bool]string{true: "yes", false: "no"}[is] }

// rate writes a throughput, in tokens where there are any.
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
