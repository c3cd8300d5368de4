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
	StepTimeMean float64   `json:"step_time_mean_s"` // the same as step_time_s
	// StepTimeStd is the standard deviation of the steps, of a sample (n − 1); 0 for a single
	// step.
	StepTimeStd float64 `json:"step_time_std_s"`
	// Losses are the losses before every step, including the steps of the warm-up; null for a
	// loss that is NaN or infinite.
	Losses Losses `json:"losses,omitempty"`
	// ValidationLoss is the mean loss on samples that are held out, without dropout: after
	// every epoch, including the epochs of the warm-up, or after the last measured step.
	ValidationLoss    Losses `json:"validation_loss,omitempty"`
	ValidationSamples int    `json:"validation_samples,omitempty"` // number of samples that are held out
	// StepTimeMedian is the median of the measured steps.
	StepTimeMedian float64 `json:"step_time_median_s"`
	Disturbed      bool    `json:"disturbed"` // whether other programs seem to have disturbed the machine
	// Numbers that show whether the machine was disturbed; absent if they were not measured.
	Steadiness *Steadiness `json:"steadiness,omitempty"`
	// RunsMade is the number of runs, which are repeated if the machine is disturbed. This is
	// the least disturbed one.
	RunsMade int       `json:"runs_made"`
	Attempts []Attempt `json:"attempts,omitempty"` // all runs in order, if there were several
	// Checks is the comparison with the unsplit run; absent if there was none.
	Checks *Checks `json:"checks,omitempty"`
	// Backend is the backend that computed.
	Backend string `json:"backend"`
	// Engine is the program that trained; absent if it was psim with gomlx.
	Engine *TrainingEngine `json:"engine,omitempty"`
	// Source is the file of another program that this was read from; absent if psim measured
	// it.
	Source string `json:"source,omitempty"`
	// CoresPerWorker is the number of cores on which each device computed; absent if this was
	// left to the operating system, which uses one core per device while cores are free.
	CoresPerWorker int  `json:"cores_per_worker,omitempty"`
	Pinned         bool `json:"pinned,omitempty"` // whether each device was kept on a core of its own
	// TimesComparable is false if devices shared cores, so that the times say little about
	// separate devices.
	TimesComparable bool `json:"times_comparable"`
	// Processes are the processes that ran the graph; absent if there was only one.
	Processes []Process `json:"processes,omitempty"`
	// HeapGrowth is the growth of the memory of all processes that ran the graph. It is a
	// check on the peaks of the ranks, which are added up from tensors.
	HeapGrowth int64 `json:"heap_growth_bytes"`
	// Compiled has, for every rank, the program that takes most beyond what its device counts, by
	// what XLA says of it; absent for the Go backend.
	Compiled []CompiledProgram `json:"compiled,omitempty"`
	// GradientCalls is the number of programs that compute gradients in a step, by rank:
	// PyTorch's autograd would be called equally often (see train.backward).
	GradientCalls []int `json:"gradient_calls,omitempty"`
	// UnwaitedTokens is the rate over the same steps by clocks that do not wait for all
	// ranks. It is never below the throughput, and absent if it was not measured.
	UnwaitedTokens  *float64 `json:"course_tokens_per_s,omitempty"`
	UnwaitedSamples *float64 `json:"course_samples_per_s,omitempty"` // the same in samples
	// Diverged is true if a loss or a difference is NaN or infinite.
	Diverged bool `json:"diverged,omitempty"`
	// Partial is true if the run was interrupted, so that some steps, or some of several
	// runs, are missing.
	Partial bool `json:"partial,omitempty"`
}

// A CompiledProgram is a program of a rank with the bytes that its compiler says it takes.
type CompiledProgram struct {
	Rank        int    `json:"rank"`            // its rank
	Program     string `json:"program"`         // its name
	Arguments   int64  `json:"arguments_bytes"` // its inputs
	Outputs     int64  `json:"outputs_bytes"`   // its results
	Shared      int64  `json:"shared_bytes"`    // of its results, in the memory of inputs
	Temporaries int64  `json:"temporary_bytes"` // what it makes and frees while it runs
	// Unseen are those of its results and temporaries that are not among the bytes that the device
	// counts, and so not in peak_memory_bytes.
	Unseen int64 `json:"unseen_bytes"`
}

// A TrainingEngine is a program that trains.
type TrainingEngine struct {
	Name    string `json:"name" oneof:"gomlx-go,gomlx-xla,pytorch"` // which program
	Version string `json:"version"`                                 // its version
	Device  string `json:"device"`                                  // cpu, or the name of the GPU
}

// UnwaitedRate returns the throughput by clocks that do not wait for all ranks; 0 if it was
// not measured.
func (m *Measurement) UnwaitedRate() Throughput {
	return Throughput{Samples: orZero(m.UnwaitedSamples), Tokens: orZero(m.UnwaitedTokens)}
}

// A Process is one of several processes that ran a graph together.
type Process struct {
	Rank  int    `json:"rank"`  // number of the process; process 0 measures
	Host  string `json:"host"`  // the machine on which it ran
	Ranks []int  `json:"ranks"` // the ranks of the graph that it ran
	// ClockResidual is the largest difference, in any step, that may remain between its clock
	// and the clock of process 0 after both were aligned.
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

// upgrade changes a measured result of an older version, which lacks the median and whose
// times are of the single step that it shows. The step time becomes the mean; the times of
// its ranks stay those of that step.
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
