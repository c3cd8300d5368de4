package results

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// longest bounds times, in seconds. It is the 292 years that a trace can hold, and low enough
// for sums and percentages of times to stay finite.
const longest = 9.2e9

// Validate reports why a JSON object is not a result.
func (r Result) Validate() error {
	if err := r.validateStep(); err != nil {
		return err
	}
	step := max(r.StepTime, r.Makespan)
	if r.Measurement != nil && len(r.Measurement.Steps) > 0 {
		step = max(step, slices.Max(r.Measurement.Steps))
	}
	for i, rank := range r.Ranks {
		if err := rank.validate(step); err != nil {
			return fmt.Errorf("ranks[%d]: %w", i, err)
		}
	}
	if m := r.Measurement; m != nil {
		if outside(m.StepTimeMean, m.StepTimeStd, m.StepTimeMedian) || outside(m.Steps...) {
			return fmt.Errorf("steps, or their mean, deviation or median, holds a time "+
				"that is negative or above %g", longest)
		}
	}
	if r.Predicted != nil {
		if err := r.Predicted.Validate(); err != nil {
			return fmt.Errorf("predicted: %w", err)
		}
	}
	for i := range r.Runs {
		if err := r.Runs[i].Validate(); err != nil {
			return fmt.Errorf("runs[%d]: %w", i, err)
		}
	}
	return nil
}

// validateStep checks the numbers of the whole step.
func (r Result) validateStep() error {
	switch {
	case r.Schema < 0 || r.Schema > Schema:
		return fmt.Errorf("schema is %d; this psim reads results up to %d, so a newer one has written it",
			r.Schema, Schema)
	case r.Kind == "":
		return fmt.Errorf("kind is missing, which a result.json of psim run or exec has: %q or %q", Predicted, Measured)
	case r.Kind != Predicted && r.Kind != Measured:
		return fmt.Errorf("kind is %q; a result has kind %q or %q", r.Kind, Predicted, Measured)
	case outside(r.StepTime, r.Makespan):
		return fmt.Errorf("step_time_s or makespan_s is negative or above %g", longest)
	case r.StepTime == 0 && r.Makespan > 0:
		return errors.New("step_time_s is missing, or 0; it is at least makespan_s")
	case !r.Bubble.IsZero() && !(r.Bubble.Makespan >= -rounding && r.Bubble.Makespan <= 1+rounding):
		return errors.New("bubble.makespan is not a fraction between 0 and 1")
	case math.Abs(r.Bubble.Span) > longest:
		return fmt.Errorf("bubble.span is beyond %g", longest)
	case !r.Throughput.possible(r.StepTime):
		return errors.New("throughput is negative, or has more samples or tokens in a step than can be counted")
	case r.SequenceLength < 0 || int64(r.SequenceLength) > longestSequence:
		return fmt.Errorf("sequence_length is %d; it is at most %d", r.SequenceLength, longestSequence)
	case len(r.Ranks) == 0:
		return errors.New("ranks is empty or missing; a result has one entry per rank")
	case r.Devices < 0 || !(r.MFU >= 0) || !(r.HFU >= 0):
		return errors.New("devices, mfu or hfu is negative")
	case !(r.MemoryMargin >= 0 && r.MemoryMargin < 1):
		return errors.New("memory_margin is not a fraction from 0 to below 1")
	case negative(r.Stages, r.VirtualStages, r.Microbatches, r.Tasks),
		negative(r.DataParallel, r.TensorParallel, r.ContextParallel, r.ExpertParallel, r.ZeroGroup):
		return errors.New("stages, virtual_stages, microbatches, data_parallel, tensor_parallel, " +
			"context_parallel, expert_parallel, zero_group or tasks is negative")
	}
	return nil
}

// inLines writes out line breaks of what a result names, which would pass for lines of psim's own.
func (r *Result) inLines() {
	for _, name := range []*string{&r.Name, &r.Schedule, &r.Device, &r.Stack, &r.Precision} {
		*name = strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(*name)
	}
	for i := range r.Runs {
		r.Runs[i].inLines()
	}
}

// rounding is what a fraction or a part of a step may be off.
const rounding = 1e-6

// longestSequence is far above any sequence, and low enough for products with samples.
const longestSequence = 1 << 40

// possible reports whether a step can have the samples and tokens.
func (t Throughput) possible(step float64) bool {
	const countable = 1 << 62
	for _, rate := range []float64{t.Samples, t.Tokens} {
		if !(rate >= 0 && rate*step <= countable) {
			return false
		}
	}
	return true
}

// validate checks the numbers of a rank, given the longest step of the run.
func (r RankResult) validate(step float64) error {
	if r.Rank < 0 {
		return errors.New("rank is negative")
	}
	if outside(r.Compute, r.Communication, r.ExposedCommunication, r.Optimizer, r.Idle, orZero(r.Dispatch)) {
		return fmt.Errorf("a time is negative or above %g", longest)
	}
	if max(r.Compute, r.ExposedCommunication, r.Optimizer, r.Idle) > step*(1+rounding) {
		return errors.New("compute_s, exposed_communication_s, optimizer_s or idle_s is longer than the step")
	}
	if negative(r.PeakMemory, r.PersistentMemory, r.MemoryCapacity, r.SentBytes, int64(r.PeakInFlight)) {
		return errors.New("a number of bytes, or peak_in_flight, is negative")
	}
	return nil
}

// negative reports whether any of the counts is negative.
func negative[N int | int64](counts ...N) bool {
	return slices.ContainsFunc(counts, func(n N) bool { return n < 0 })
}

// outside reports whether any of the values is not a possible time in seconds.
func outside(times ...float64) bool {
	return slices.ContainsFunc(times, func(t float64) bool { return t < 0 || t > longest })
}
