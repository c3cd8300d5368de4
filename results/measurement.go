package results

import (
	"math"
	"slices"
	"time"

	"psim/internal/units"
	"psim/schedules/graph"
)

// A Measurement holds the fields that only a measured result has. The times of a measured
// result and of its ranks are means over the measured steps. Its memory, trace and pictures
// show one step: the one of the median time, or the shorter of the two in the middle.
type Measurement struct {
	// Steps are the times of the measured steps, in seconds.
	Steps        []float64 `json:"steps"`
	StepTimeMean float64   `json:"step_time_mean_s"` // step_time_s under another name
	// StepTimeStd is the deviation of the steps from the mean: the sample's, with n − 1,
	// and 0 for a single step.
	StepTimeStd float64 `json:"step_time_std_s"`
	// Losses are those of all steps, before each, the warm-up's among them; null where
	// one is no number.
	Losses Losses `json:"losses,omitempty"`
	// ValidationLoss is the mean loss on samples that are held out, without dropout: after
	// every epoch, those of the warm-up among them, or after the last measured step.
	ValidationLoss    Losses `json:"validation_loss,omitempty"`
	ValidationSamples int    `json:"validation_samples,omitempty"` // how many are held out
	// StepTimeMedian is the median of the measured steps.
	StepTimeMedian float64 `json:"step_time_median_s"`
	Disturbed      bool    `json:"disturbed"` // whether something else seems to have run on the machine
	// What tells whether the machine was disturbed; absent where that was not measured.
	Steadiness *Steadiness `json:"steadiness,omitempty"`
	// RunsMade is how often it was run, because the machine was disturbed. Of several
	// runs, which are listed in order, this is the least disturbed.
	RunsMade int       `json:"runs_made"`
	Attempts []Attempt `json:"attempts,omitempty"` // all runs, in order, where there were several
	// Checks compares what was trained with the unsplit run; absent if not done.
	Checks *Checks `json:"checks,omitempty"`
	// Backend is what computed.
	Backend string `json:"backend"`
	// Source is the file of another program that this was read from; absent in what psim
	// has measured.
	Source string `json:"source,omitempty"`
	// CoresPerWorker is how many cores each device computed on; absent where that was left
	// to the system, which is one wherever it is free.
	CoresPerWorker int  `json:"cores_per_worker,omitempty"`
	Pinned         bool `json:"pinned,omitempty"` // whether each was kept on a core of its own
	// TimesComparable is false where devices shared cores, so that the times
	// say little about devices of their own.
	TimesComparable bool `json:"times_comparable"`
	// Processes are those that ran the graph together; absent where it was one alone.
	Processes []Process `json:"processes,omitempty"`
	// HeapGrowth is by how much the memory of the process itself grew, or of all. The
	// peaks of the ranks are a ledger of tensors; this is the check on it.
	HeapGrowth int64 `json:"heap_growth_bytes"`
	// GradientCalls is how many programs that make gradients a step ran on every rank:
	// as often would PyTorch's autograd be called (see train.backward).
	GradientCalls []int `json:"gradient_calls,omitempty"`
	// UnwaitedTokens is the rate over the same steps by clocks that do not wait for all
	// ranks: never below the throughput; absent if not measured.
	UnwaitedTokens  *float64 `json:"course_tokens_per_s,omitempty"`
	UnwaitedSamples *float64 `json:"course_samples_per_s,omitempty"` // the same of samples
	// Diverged is true where a loss or a difference is NaN or infinite.
	Diverged bool `json:"diverged,omitempty"`
	// Partial is true where the run was interrupted, so that not all steps, or not all of
	// several runs, are there.
	Partial bool `json:"partial,omitempty"`
}

// UnwaitedRate returns the throughput by clocks that do not wait for all ranks; 0 where it was
// not measured.
func (m *Measurement) UnwaitedRate() Throughput {
	return Throughput{Samples: orZero(m.UnwaitedSamples), Tokens: orZero(m.UnwaitedTokens)}
}

// A Process is one of several processes that ran a graph together.
type Process struct {
	Rank  int    `json:"rank"`  // 0 is the first, which measures
	Host  string `json:"host"`  // machine that it ran on
	Ranks []int  `json:"ranks"` // of the graph, which it ran
	// ClockResidual is by how much its clock may differ from the first's after both were
	// aligned: the most in any step.
	ClockResidual float64 `json:"clock_residual_s"`
}

// NewMeasured makes a Result of the measured steps of one graph, at least one. It also
// returns the trace of the step that the result shows.
func NewMeasured(traces []*graph.Trace, info Info) (Result, *graph.Trace) {
	steps, summaries := make([]time.Duration, len(traces)), make([]graph.Summary, len(traces))
	for i, t := range traces {
		summaries[i] = graph.Summarize(t)
		steps[i] = summaries[i].StepTime
	}
	shown := slices.Index(steps, lowerMedian(steps))
	r := NewResult(Measured, traces[shown], summaries[shown].MeanTimes(summaries), info)
	r.meanGroups(traces, info)
	r.Measurement = NewMeasurement(steps...)
	return r, traces[shown]
}

// meanGroups averages the communication times of the groups over the steps.
func (r *Result) meanGroups(traces []*graph.Trace, info Info) {
	sums := map[[2]string]float64{}
	for _, t := range traces {
		for _, g := range groups(t, info) {
			sums[[2]string{g.Dimension, g.Collective}] += g.Time
		}
	}
	for k, g := range r.Groups {
		r.Groups[k].Time = sums[[2]string{g.Dimension, g.Collective}] / float64(len(traces))
	}
}

// NewMeasurement makes a measurement of steps, with their mean, deviation and median.
func NewMeasurement(steps ...time.Duration) *Measurement {
	m := &Measurement{Steps: []float64{}}
	n := time.Duration(len(steps))
	if n == 0 {
		return m
	}
	var sum time.Duration
	for _, s := range steps {
		m.Steps = append(m.Steps, s.Seconds())
		sum += s
	}
	m.StepTimeMean = ((sum + n/2) / n).Seconds() // in whole nanoseconds, as all times are
	var squares float64
	for _, s := range m.Steps {
		squares += (s - m.StepTimeMean) * (s - m.StepTimeMean)
	}
	if n > 1 {
		m.StepTimeStd = math.Sqrt(squares / float64(n-1))
	}
	m.StepTimeMedian = units.Median(m.Steps)
	return m
}

// lowerMedian returns the median of some times. Of an even number it is the lower of the two
// in the middle.
func lowerMedian[T time.Duration | float64](times []T) T {
	return slices.Sorted(slices.Values(times))[(len(times)-1)/2]
}

// StepCount returns the number of measured steps, 0 for a prediction.
func (r Result) StepCount() int {
	if r.Kind != Measured || r.Measurement == nil {
		return 0
	}
	return len(r.Steps)
}

// TracedStep returns the time of the step that the trace and the pictures show.
func (r Result) TracedStep() float64 {
	if r.StepCount() == 0 {
		return r.StepTime
	}
	return lowerMedian(r.Steps)
}

// upgrade changes a measured result of an older version, which has no median and whose times
// are those of the step that it shows: the step time becomes the mean. The times of its
// ranks stay those of that step.
func (r *Result) upgrade() {
	if r.StepCount() > 0 && r.StepTimeMedian == 0 && r.StepTimeMean > 0 {
		r.StepTimeMedian = units.Median(r.Steps)
		r.Throughput.Samples *= r.StepTime / r.StepTimeMean
		r.Throughput.Tokens *= r.StepTime / r.StepTimeMean
		r.StepTime = r.StepTimeMean
	}
	for i := range r.Runs {
		r.Runs[i].upgrade()
	}
}

// writable makes the list of steps empty rather than null, and notes whether a number is NaN
// or infinite.
func (m *Measurement) writable() *Measurement {
	if m == nil {
		return nil
	}
	copied := *m
	if copied.Steps == nil {
		copied.Steps = []float64{}
	}
	copied.Diverged = m.Diverged || m.Checks.diverged() || m.Losses.diverged() || m.ValidationLoss.diverged()
	return &copied
}
