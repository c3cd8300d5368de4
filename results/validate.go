package results

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// longest bounds times, in seconds. It is the 292 years that a trace can hold, and low enough
// for sums and percentages of times to stay finite.
const longest = 9.2e9

// Validate reports why a JSON object is not a result.
func (r Result) Validate() error {
	if err := r.validateStep(); err != nil {
		return err
	}
	for i, rank := range r.Ranks {
		if err := rank.validate(); err != nil {
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
	case !r.Bubble.IsZero() && !(math.Abs(r.Bubble.Makespan) < longest) || math.Abs(r.Bubble.Span) > longest:
		return fmt.Errorf("bubble is beyond %g", longest)
	case len(r.Ranks) == 0:
		return errors.New("ranks is empty or missing; a result has one entry per rank")
	case negative(r.Stages, r.VirtualStages, r.Microbatches, r.Tasks),
		negative(r.DataParallel, r.TensorParallel, r.ContextParallel, r.ExpertParallel):
		return errors.New("stages, virtual_stages, microbatches, data_parallel, tensor_parallel, " +
			"context_parallel, expert_parallel or tasks is negative")
	}
	return nil
}

// validate checks the numbers of a rank.
func (r RankResult) validate() error {
	if outside(r.Compute, r.Communication, r.ExposedCommunication, r.Optimizer, r.Idle, orZero(r.Dispatch)) {
		return fmt.Errorf("a time is negative or above %g", longest)
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
