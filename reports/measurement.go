package reports

import (
	"math"
	"time"
)

// A Measurement is what a measured result has beside what a prediction has.
type Measurement struct {
	// Steps lists the times of the measured steps, in seconds.
	Steps []float64 `json:"steps"`
	// StepTimeMean and StepTimeStd are over Steps, while the step time of the
	// result is that of its trace: one of the steps. Std is the sample's, with
	// n − 1, and 0 for a single step.
	StepTimeMean float64 `json:"step_time_mean_s"`
	StepTimeStd  float64 `json:"step_time_std_s"`
	// Checks compares what was trained with the unsplit run; nil if not done.
	Checks *Checks `json:"checks,omitempty"`
	// Backend is what computed.
	Backend string `json:"backend"`
	// TimesComparable is false where devices shared cores, so that the times
	// say little about devices of their own.
	TimesComparable bool `json:"times_comparable"`
	// HeapGrowth is by how much the memory of the process itself grew. The
	// peaks of the ranks are a ledger of tensors; this is the check on it.
	HeapGrowth int64 `json:"heap_growth_bytes"`
	// CourseTokens and CourseSamples are rates per second by clocks that do
	// not wait for all ranks, as the course's own scripts report them; nil if
	// not measured.
	CourseTokens  *float64 `json:"course_tokens_per_s,omitempty"`
	CourseSamples *float64 `json:"course_samples_per_s,omitempty"`
	// Diverged is true where a loss or a difference is NaN or infinite.
	Diverged bool `json:"diverged,omitempty"`
	// Partial is true where the run was interrupted, so that not all steps
	// are there.
	Partial bool `json:"partial,omitempty"`
}

// NewMeasurement is a measurement of steps, with their mean and deviation.
func NewMeasurement(steps ...time.Duration) *Measurement {
	m := &Measurement{Steps: []float64{}}
	var sum, squares float64
	for _, s := range steps {
		m.Steps = append(m.Steps, s.Seconds())
		sum += s.Seconds()
	}
	if len(steps) == 0 {
		return m
	}
	m.StepTimeMean = sum / float64(len(steps))
	for _, s := range m.Steps {
		squares += (s - m.StepTimeMean) * (s - m.StepTimeMean)
	}
	if len(steps) > 1 {
		m.StepTimeStd = math.Sqrt(squares / float64(len(steps)-1))
	}
	return m
}

// Checks compares a run with the unsplit one. A number is nil where it was not
// checked. What is NaN or infinite is null in files.
type Checks struct {
	// Weights, Outputs and Gradients are the largest absolute differences.
	Weights   *float64 `json:"weights,omitempty"`
	Outputs   *float64 `json:"outputs,omitempty"`
	Gradients *float64 `json:"gradients,omitempty"`
	// LossFirst and LossLast are the losses of the first and last step, and
	// LossDifference the largest difference of any step's.
	LossFirst      *float64 `json:"loss_first,omitempty"`
	LossLast       *float64 `json:"loss_last,omitempty"`
	LossDifference *float64 `json:"loss_difference,omitempty"`
	// Reference is the run that they are from; empty is the unsplit one.
	Reference string `json:"reference,omitempty"`
	// Passed is the verdict over all that was checked.
	Passed bool `json:"passed"`
}

// Worst joins the checks of several runs: the largest differences, and passed
// only if both did. Losses and the reference, which belong to one run, are the
// receiver's.
func (c Checks) Worst(d Checks) Checks {
	c.Weights, c.Outputs = larger(c.Weights, d.Weights), larger(c.Outputs, d.Outputs)
	c.Gradients, c.LossDifference = larger(c.Gradients, d.Gradients), larger(c.LossDifference, d.LossDifference)
	c.Passed = c.Passed && d.Passed
	return c
}

// larger returns the larger of two numbers that may be unknown. NaN counts as
// larger than all.
func larger(a, b *float64) *float64 {
	switch {
	case a == nil:
		return b
	case b == nil || math.IsNaN(*a):
		return a
	case math.IsNaN(*b) || *b > *a:
		return b
	}
	return a
}

// writable writes a list that is always there as empty, and notes what JSON has no
// number for.
func (m *Measurement) writable() *Measurement {
	if m == nil {
		return nil
	}
	copied := *m
	if copied.Steps == nil {
		copied.Steps = []float64{}
	}
	copied.Diverged = m.Diverged || m.Checks.diverged()
	return &copied
}
