package session

import (
	"fmt"
	"time"

	"psim"
	"psim/exec"
	"psim/results"
	"psim/schedules/graph"
)

func (r *Run) summarize(m *exec.Measurement, o Options) {
	r.Verdict, r.gradients = m.Verdict, m.Gradients
	info := psim.Info(r.Config, r.Plan)
	if o.Epochs > 0 {
		info.DataSet = int64(m.Samples)
	}
	predicted := r.simulation.Result(info)
	r.Result, r.Measured = results.NewMeasured(m.Traces, info)
	r.Result.Predicted = &predicted
	if o.Shards {
		r.Result.Shards = results.NewReplicaSamples(m.Shards)
	}
	if o.Epochs > 0 {
		r.Result.MeasureEpochs(m.Traces, o.Warmup, info)
	}
	measurement := r.Result.Measurement
	measurement.Backend, measurement.Processes = o.Devices.Backend, placement(m.Processes)
	measurement.CoresPerWorker, measurement.Pinned = o.Devices.CoresPerWorker, o.Devices.Pinned()
	measurement.TimesComparable = m.Comparable
	measurement.HeapGrowth, measurement.GradientCalls = m.HeapGrowth, m.GradientCalls
	measurement.Checks, measurement.Losses = checks(m, o.Checks), m.Record.Losses
	measurement.ValidationLoss, measurement.ValidationSamples = m.Record.Validation, o.Data.Validation
	if s := steadiness(measurement.StepTimeStd/measurement.StepTimeMean, m.Probes); s != nil {
		measurement.Steadiness, measurement.Disturbed = s, s.Score() > 1
	}
	if o.UnwaitedRates {
		measurement.UnwaitedTokens, measurement.UnwaitedSamples = unwaitedRates(m.Traces, r.Plan.Tokens, r.Plan.Samples)
	}
	r.warn(o.Devices.Unpinned())
}

// warn adds doubts about a run: that it is not pinned for a reason, was disturbed, or
// has a slow rank.
func (r *Run) warn(unpinned string) {
	warn := func(format string, args ...any) {
		r.Result.Warnings = append(r.Result.Warnings, fmt.Sprintf(format, args...))
	}
	if unpinned != "" {
		warn("%s", unpinned)
	}
	if s := r.Result.Steadiness; s != nil && r.Result.Disturbed {
		warn("%s", s.Warning())
	}
	if slow := r.Result.SlowRankWarning(); slow != "" && r.Result.TimesComparable {
		warn("%s", slow)
	}
}

// checks returns the differences that were asked for; nil if none was found.
func checks(m *exec.Measurement, names []string) *results.Checks {
	if m.Verdict == nil {
		return nil
	}
	v := *m.Verdict
	c := &results.Checks{Reference: v.Reference, Passed: v.Err() == nil}
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

// unwaitedRates returns the rates of steps of so many tokens and samples: those of
// all steps over the time until a rank has begun its last forward or backward in
// each, averaged over the ranks. No step ends earlier, so that no rate is below the
// throughput.
func unwaitedRates(traces []*graph.Trace, tokensPerStep, samplesPerStep int64) (tokens, samples *float64) {
	until := make([]time.Duration, traces[0].Graph.Ranks())
	for _, t := range traces {
		for rank, at := range exec.Launched(t) {
			until[rank] += at
		}
	}
	var perSecond float64 // steps
	for _, t := range until {
		if t <= 0 {
			return nil, nil
		}
		perSecond += float64(len(traces)) / t.Seconds() / float64(len(until))
	}
	rate := func(perStep int64) *float64 {
		r := float64(perStep) * perSecond
		return &r
	}
	if tokensPerStep > 0 {
		tokens = rate(tokensPerStep)
	}
	return tokens, rate(samplesPerStep)
}
