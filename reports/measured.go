package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"psim/internal/units"
	"psim/results"
)

// stepTime prints the step time. Of a measured result it is the mean of the steps, with their
// deviation and median.
func stepTime(r results.Result) string {
	if r.StepCount() == 0 {
		return units.FormatSeconds(r.StepTime) + startup(r)
	}
	text := measuredStep(r) + ", one step"
	if len(r.Steps) > 1 {
		median := units.FormatSeconds(r.StepTimeMedian)
		text = fmt.Sprintf("%s, mean of %d steps (median %s)", measuredStep(r), len(r.Steps), median)
	}
	if r.Partial {
		text += "; interrupted before the last"
	}
	return text + startup(r)
}

// measuredStep prints the mean of the steps, and their deviation if there are several.
func measuredStep(r results.Result) string {
	text := units.FormatSeconds(r.StepTime)
	if r.StepCount() > 1 {
		text += " ± " + units.FormatSeconds(r.StepTimeStd)
	}
	return text
}

// prediction prints the predicted step time, and how far off it was.
func prediction(r results.Result) string {
	if r.Predicted == nil {
		return ""
	}
	text := units.FormatSeconds(r.Predicted.StepTime)
	if r.Predicted.StepTime > 0 {
		text += "; measured is " + longer(r.StepTime/r.Predicted.StepTime-1)
	}
	return text
}

// longer says by which fraction a time exceeds another time.
func longer(fraction float64) string {
	switch text := units.FormatPercent(math.Abs(fraction)); {
	case text == units.FormatPercent(0):
		return "as long"
	case fraction < 0:
		return text + " shorter"
	default:
		return text + " longer"
	}
}

// unwaitedRate prints the throughput by clocks that do not wait for all ranks. It says so,
// because the line "throughput" has another number.
func unwaitedRate(r results.Result) string {
	if r.Measurement == nil {
		return ""
	}
	text := throughput(r.UnwaitedRate())
	if text != "" {
		text += " by clocks that do not wait for all ranks"
	}
	if e := r.Epochs; text != "" && e != nil && e.Unwaited != nil {
		text += "; of an epoch " + deviatingRate(*e.Unwaited, *e.UnwaitedStd)
	}
	return text
}

// validation prints the losses on held-out samples.
func validation(r results.Result) string {
	if r.Measurement == nil || len(r.ValidationLoss) == 0 {
		return ""
	}
	var losses []string
	for _, loss := range r.ValidationLoss {
		losses = append(losses, digits(loss, 4))
	}
	const most = 6
	if n := len(losses); n > most {
		losses = append([]string{losses[0], "…"}, losses[n-most+1:]...)
	}
	when := "after the last measured step"
	if r.Epochs != nil && r.Epochs.Each != nil {
		when = "after every epoch"
	}
	return fmt.Sprintf("loss %s on %s that no replica trains on, %s",
		strings.Join(losses, " → "), units.Plural(r.ValidationSamples, "sample"), when)
}

// attempts prints the step times of repeated runs.
func attempts(r results.Result) string {
	if r.Measurement == nil || len(r.Attempts) < 2 {
		return ""
	}
	var times []string
	for _, a := range r.Attempts {
		times = append(times, units.FormatSeconds(a.StepTime))
	}
	return fmt.Sprintf("the least disturbed of %d, whose steps took %s", len(times), strings.Join(times, ", "))
}

// heapGrowth prints the growth of the process's heap, and the sum of the ranks' peaks to
// compare it with.
func heapGrowth(r results.Result) string {
	switch {
	case r.Measurement == nil || r.HeapGrowth == 0:
		return ""
	case r.HeapGrowth < 0:
		return "its heap shrank by " + units.FormatBytes(-max(r.HeapGrowth, -math.MaxInt64))
	}
	var ledger float64
	for _, rank := range r.Ranks {
		ledger += float64(rank.PeakMemory)
	}
	text := "its heap grew by " + units.FormatBytes(r.HeapGrowth)
	if ledger > 0 && ledger < math.MaxInt64 {
		text += "; the peaks of all ranks add up to " + units.FormatBytes(int64(ledger))
	}
	return text
}

// mostUnseen returns the program that takes most beyond what its device counts; false if no compiler said.
func mostUnseen(r results.Result) (worst results.CompiledProgram, known bool) {
	if r.Measurement == nil || len(r.Compiled) == 0 {
		return worst, false
	}
	return slices.MaxFunc(r.Compiled, func(a, b results.CompiledProgram) int {
		return cmp.Compare(a.Unseen, b.Unseen)
	}), true
}

// unseen says how much of a program's memory the devices do not count.
func unseen(r results.Result) string {
	worst, known := mostUnseen(r)
	if !known {
		return ""
	}
	return fmt.Sprintf("%s that rank %d takes for a moment: %s has %s of results and %s of temporaries",
		units.FormatBytes(worst.Unseen), worst.Rank, worst.Program, units.FormatBytes(worst.Outputs),
		units.FormatBytes(worst.Temporaries))
}

// backend says what computed, and whether its times are comparable.
func backend(r results.Result) string {
	if r.Measurement == nil || r.Backend == "" {
		return ""
	}
	text := r.Backend + ", " + units.Plural(r.Devices, "device")
	switch {
	case r.Pinned:
		text += " kept on cores of their own"
	case r.CoresPerWorker > 0:
		text += " of " + units.Plural(r.CoresPerWorker, "core") + " each, not pinned"
	}
	if !r.TimesComparable {
		text += results.SharedCores
	}
	return text
}

// processes says which of several processes ran which ranks.
func processes(r results.Result) string {
	if r.Measurement == nil || len(r.Processes) == 0 {
		return ""
	}
	var parts []string
	residual := 0.0
	for k, p := range r.Processes {
		text := "no rank"
		switch n := len(p.Ranks); {
		case n == 1:
			text = "rank " + strconv.Itoa(p.Ranks[0])
		case n > 1:
			text = fmt.Sprintf("ranks %d to %d", p.Ranks[0], p.Ranks[n-1])
		}
		if k == 0 || p.Host != r.Processes[k-1].Host {
			text = "on " + p.Host + " " + text
		}
		parts = append(parts, text)
		residual = max(residual, p.ClockResidual)
	}
	return fmt.Sprintf("%d, %s; clocks agree within %s",
		len(parts), strings.Join(parts, ", "), units.FormatSeconds(residual))
}

// checks says how far the run is from the unsplit run.
func checks(r results.Result) string {
	if r.Measurement == nil || r.Checks == nil {
		return ""
	}
	c := r.Checks
	var parts []string
	for _, p := range []struct {
		name  string
		value *float64
	}{{"weights", c.Weights}, {"outputs", c.Outputs}, {"gradients", c.Gradients}, {"loss", c.LossDifference}} {
		if p.value != nil {
			parts = append(parts, p.name+" by "+digits(*p.value, 3))
		}
	}
	text := c.Verdict()
	if len(parts) > 0 {
		text += fmt.Sprintf("; off %s at most: %s", cmp.Or(c.Reference, "the unsplit run"), strings.Join(parts, ", "))
	}
	if c.LeftOut > 0 && c.LeftOutLargest != nil {
		text += fmt.Sprintf("; not judged: %s in %s with next to no gradient (Adam makes whole steps of those), "+
			"off by %s at most", units.Plural(c.LeftOut, "weight"),
			units.Plural(len(c.LeftOutTensors), "tensor"), digits(*c.LeftOutLargest, 3))
	}
	if worst, known := mostUnseen(r); known && worst.Unseen > 0 {
		text += "; memory that the ledger does not see: " + units.FormatBytes(worst.Unseen)
	}
	if c.LossFirst != nil && c.LossLast != nil {
		text += fmt.Sprintf("; loss %s → %s", digits(*c.LossFirst, 4), digits(*c.LossLast, 4))
	}
	return text
}

// digits prints a number of any size in a few digits.
func digits(x float64, precision int) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "no number"
	}
	return strconv.FormatFloat(x, 'g', precision, 64)
}

// intervalText says where a measured step time may lie, or why that is not known.
func intervalText(r results.Result) string {
	i := r.Interval
	switch {
	case i != nil:
		return fmt.Sprintf("%s to %s holds %.0f %% of such runs, by %s of %s (%s)", units.FormatSeconds(i.Low),
			units.FormatSeconds(i.High), 100*i.Coverage, units.Plural(i.Runs, "published run"),
			units.Plural(i.Sources, "source"), i.From) + unsaidText(r)
	case r.IntervalMissing != "":
		return "unknown: " + r.IntervalMissing
	}
	return ""
}

// unsaidText names the setting that is not said and matters most.
func unsaidText(r results.Result) string {
	if len(r.Interval.Unsaid) == 0 {
		return ""
	}
	u := r.Interval.Unsaid[0]
	return fmt.Sprintf("; if your run has %s, it takes %s", strings.Join(u.Set, " "), units.FormatSeconds(u.StepTime))
}
