package session

import (
	"fmt"
	"time"

	"psim"
	"psim/exec/measure"
	"psim/results"
	"psim/schedules/graph"
)

// summarize makes the result of a measurement and its prediction.
func (r *Trial) summarize(m *measure.Findings, o Options) {
	r.Verdict, r.gradients = m.Verdict, m.Gradients
	info := psim.Info(r.Config, r.Experiment)
	if o.Measure.Train.Epochs > 0 {
		info.DataSet = int64(m.Samples)
	}
	predicted := r.simulation.Result(info)
	r.Result, r.Measured = results.NewMeasured(m.Traces, info)
	r.Result.Predicted, r.Steps = &predicted, m.Traces
	if o.Shards {
		r.Result.Shards = results.NewReplicaSamples(m.Shards)
	}
	if o.Measure.Train.Epochs > 0 {
		r.Result.MeasureEpochs(m.Traces, o.Measure.Train.Warmup, info)
	}
	measurement := r.Result.Measurement
	measurement.Backend, measurement.Processes = o.Measure.Devices.Backend, participants(m.Processes)
	measurement.CoresPerWorker, measurement.Pinned = o.Measure.Devices.CoresPerWorker, o.Measure.Devices.Pinned()
	measurement.TimesComparable = m.Comparable
	measurement.HeapGrowth, measurement.GradientCalls = m.HeapGrowth, m.GradientCalls
	for _, p := range m.Compiled {
		measurement.Compiled = append(measurement.Compiled, results.CompiledProgram{
			Rank: p.Rank, Program: p.Name, Arguments: p.Arguments, Outputs: p.Outputs, Shared: p.Shared,
			Temporaries: p.Temporaries, Unseen: p.Unseen,
		})
	}
	measurement.Checks, measurement.Losses = checks(m, o.Measure.Checks), m.Record.Losses
	measurement.ValidationLoss, measurement.ValidationSamples = m.Record.Validation, o.Measure.Data.Validation
	if s := steadiness(measurement.StepTimeStd/measurement.StepTimeMean, m.Probes); s != nil {
		measurement.Steadiness, measurement.Disturbed = s, s.Score() > 1
	}
	if o.UnwaitedRates {
		tokens, samples := unwaitedRates(m.Traces, r.Experiment.Tokens, r.Experiment.Samples)
		measurement.UnwaitedTokens, measurement.UnwaitedSamples = tokens, samples
		r.Result.MeasureUnwaited(m.Traces, func(steps []*graph.Trace) results.Throughput {
			tokens, samples := unwaitedRates(steps, r.Experiment.Tokens, r.Experiment.Samples)
			m := results.Measurement{UnwaitedTokens: tokens, UnwaitedSamples: samples}
			return m.UnwaitedRate()
		})
	}
	r.warn(o.Measure.Devices.Unpinned())
}

// warn adds warnings about a run: why devices are not pinned, that the machine was disturbed,
// or that a rank is slow.
func (r *Trial) warn(unpinned string) {
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

// checks returns the differences that were asked for; nil if nothing was compared.
func checks(m *measure.Findings, names []string) *results.Checks {
	if m.Verdict == nil {
		return nil
	}
	v := *m.Verdict
	c := &results.Checks{Reference: v.Reference, Passed: v.Err() == nil}
	for _, name := range names {
		switch name {
		case measure.CheckWeights:
			c.Weights = &v.Weights
			if l := v.LeftOut; l.Count > 0 {
				c.LeftOut, c.LeftOutLargest, c.LeftOutTensors = l.Count, &l.Largest, l.Tensors
			}
		case measure.CheckOutput:
			c.Outputs = &v.Outputs
		case measure.CheckGradients:
			c.Gradients = &v.Gradients
		case measure.CheckLoss:
			losses := m.Record.Losses
			c.LossDifference, c.LossFirst, c.LossLast = &v.Loss, &losses[0], &losses[len(losses)-1]
		}
	}
	return c
}

// unwaitedRates returns the rates of steps with a number of tokens and samples, by a clock that
// does not wait: over the time until a rank has begun its last forward or backward in each
// step, averaged over the ranks. Steps end later, so the rates are at least the throughput.
func unwaitedRates(traces []*graph.Trace, tokensPerStep, samplesPerStep int64) (tokens, samples *float64) {
	until := make([]time.Duration, traces[0].Graph.Ranks())
	for _, t := range traces {
		for rank, at := range launched(t) {
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

// launched returns when the last forward or backward of every rank began, which is where a
// clock stops that does not wait for the device.
func launched(trace *graph.Trace) []time.Duration {
	at := make([]time.Duration, trace.Graph.Ranks())
	for i := range int32(trace.Graph.Len()) {
		if task := trace.Graph.Class(i); task.Kind.Compute() {
			at[task.Rank] = max(at[task.Rank], trace.Spans[i].Start)
		}
	}
	return at
}
