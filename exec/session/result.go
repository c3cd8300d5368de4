package session

import (
	"fmt"
	"math"
	"slices"
	"time"

	"psim"
	"psim/exec"
	"psim/reports"
	"psim/schedules/graph"
)

// restless bounds the deviation of steps from their mean on a quiet machine.
const restless = 0.08

func (r *Run) summarize(m *exec.Measurement, o Options) {
	r.Measured, r.Verdict = m.MedianStep(), m.Verdict
	info := psim.MeasuredInfo(r.Config, r.Plan, r.Measured)
	predicted := r.simulation.Result(info)
	r.Result = reports.NewResult(reports.Measured, r.Measured, graph.Summarize(r.Measured), info)
	r.Result.Predicted = &predicted
	var steps []time.Duration
	for _, t := range m.Traces {
		steps = append(steps, t.End())
	}
	measurement := reports.NewMeasurement(steps...)
	measurement.Backend = o.Devices.Backend
	measurement.TimesComparable = exec.Comparable(r.Plan.Graph.Ranks(), o.Devices)
	measurement.HeapGrowth = m.HeapGrowth
	measurement.Checks = checks(m, o.Checks)
	if o.UnwaitedRates {
		measurement.CourseTokens, measurement.CourseSamples = r.unwaitedRates(m.Traces)
	}
	r.Result.Measurement = measurement
	r.warn(m.Record.Losses, o)
}

func (r *Run) warn(losses []float64, o Options) {
	warn := func(format string, args ...any) {
		r.Result.Warnings = append(r.Result.Warnings, fmt.Sprintf(format, args...))
	}
	diverged := func(loss float64) bool { return math.IsNaN(loss) || math.IsInf(loss, 0) }
	if i := slices.IndexFunc(losses, diverged); i >= 0 { // the warm-up's losses among them
		r.Result.Diverged = true
		warn("the loss of step %d of %d is %g: the training diverged; a smaller --learning-rate may help", i+1, len(losses), losses[i])
	}
	if o.PerLayer {
		warn("backwards run layer by layer (--per-layer)")
	}
	if unrest := r.Result.StepTimeStd / r.Result.StepTimeMean; unrest > restless {
		warn("the steps deviate by %.0f %% from each other: something else was running, and predictions suffer", 100*unrest)
	}
}

// checks returns the differences that were asked for; nil if none was found.
func checks(m *exec.Measurement, names []string) *reports.Checks {
	if m.Verdict == nil {
		return nil
	}
	v := *m.Verdict
	c := &reports.Checks{Reference: v.Reference, Passed: v.Err() == nil}
	for _, name := range names {
		switch name {
		case exec.CheckWeights:
			c.Weights = &v.Weights
		case exec.CheckOutput:
			c.Outputs = &v.Outputs
		case exec.CheckGradients:
			c.Gradients = &v.Gradients
		case exec.CheckLoss:
			losses := m.Record.Losses
			c.LossDifference, c.LossFirst, c.LossLast = &v.Loss, &losses[0], &losses[len(losses)-1]
		}
	}
	return c
}

// unwaitedRates returns the samples and tokens of a step over the time until a rank
// has begun its last forward or backward, averaged over ranks and steps.
func (r *Run) unwaitedRates(traces []*graph.Trace) (tokens, samples *float64) {
	var sum float64
	n := 0
	for _, t := range traces {
		for _, at := range exec.Launched(t) {
			if at > 0 {
				sum += 1 / at.Seconds()
				n++
			}
		}
	}
	if n == 0 {
		return nil, nil
	}
	rate := func(perStep int64) *float64 {
		r := float64(perStep) * sum / float64(n)
		return &r
	}
	if r.Plan.Tokens > 0 {
		tokens = rate(r.Plan.Tokens)
	}
	return tokens, rate(r.Plan.Samples)
}
