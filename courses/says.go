package courses

import (
	"fmt"
	"strings"

	"psim/internal/units"
	"psim/results"
)

// say answers a task from the results of runs, which are predicted or measured; it is empty
// if a result is missing, or if results do not answer the task.
func (t task) say(of func(name string) *results.Result) string {
	switch t.Says {
	case "data":
		return sayData(of)
	case "pipeline":
		return sayPipeline(of)
	}
	return ""
}

// sayData says how data parallelism scales.
func sayData(of func(string) *results.Result) string {
	var b strings.Builder
	one := of("ddp=1")
	if one == nil {
		return ""
	}
	fmt.Fprintf(&b, "One device takes %s for %.0f samples%s: %s.",
		units.FormatSeconds(one.StepTime), one.Throughput.Samples*one.StepTime, epoch(*one), rate(*one))
	for _, name := range []string{"ddp=2", "ddp=4"} {
		r := of(name)
		if r == nil {
			continue
		}
		speedup := throughput(*r).Samples / throughput(*one).Samples
		fmt.Fprintf(&b, " With %d devices it is %s for %.0f%s: %s, %.2f times as much, which is %.0f %% of ideal.",
			r.Devices, units.FormatSeconds(r.StepTime), r.Throughput.Samples*r.StepTime, epoch(*r), rate(*r),
			speedup, 100*speedup/float64(r.Devices))
		fmt.Fprintf(&b, " Of the step, %.0f %% is communication that nothing hides: each device sends %s of "+
			"gradients after the backward.", 100*average(*r, exposed)/r.StepTime, units.FormatBytes(sent(*r)))
	}
	return b.String()
}

// sayPipeline says what pipelining gains over model parallelism.
func sayPipeline(of func(string) *results.Result) string {
	model, taken, intended := of("model=2"), of("pipeline=2"), of("gpipe=2")
	if model == nil || taken == nil || intended == nil {
		return ""
	}
	text := fmt.Sprintf("Model parallelism takes %s a step, because one device waits while the other works: "+
		"%.1f %% of their time is idle.", units.FormatSeconds(model.StepTime), 100*model.Bubble.Makespan)
	text += fmt.Sprintf(" A pipeline of %s as GPipe has it (gpipe=2) takes %s: a speedup of %.2f.",
		units.Plural(intended.Microbatches, "microbatch"), units.FormatSeconds(intended.StepTime),
		model.StepTime/intended.StepTime)
	text += fmt.Sprintf(" As the homework's code runs it (pipeline=2), only forwards overlap: %s, a speedup of %.2f.",
		units.FormatSeconds(taken.StepTime), model.StepTime/taken.StepTime)
	if taken.Kind == results.Predicted {
		text += fmt.Sprintf(" It is slower than model parallelism because one Python process launches four times as "+
			"many kernels for two devices, which wait %s of a step for it.", mean(*taken, dispatch))
	}
	return text
}

// epoch says how long an epoch takes, if that is known.
func epoch(r results.Result) string {
	if r.Epochs == nil {
		return ""
	}
	text := " and " + units.FormatSeconds(r.Epochs.Time)
	if r.Epochs.Each != nil {
		text += " ± " + units.FormatSeconds(r.Epochs.TimeStd)
	}
	return text + fmt.Sprintf(" for an epoch of %s", units.FormatCount(r.Epochs.Samples))
}

func exposed(r results.RankResult) float64 { return r.ExposedCommunication }

func dispatch(r results.RankResult) float64 {
	if r.Dispatch == nil {
		return 0
	}
	return *r.Dispatch
}
