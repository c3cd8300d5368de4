// Package validation predicts steps of two networks that are spread over devices in several
// ways, runs them, and says how far off the predictions were.
package validation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"psim/exec/backend"
	"psim/exec/session"
	"psim/internal/units"
	"psim/results"
	"psim/results/compare"
)

// Options say how experiments are run.
type Options struct {
	// Session says how a step is predicted and run.
	Session session.Options
	// Devices is how many an experiment has.
	Devices int
	// Runs is how often each experiment is run; the run with the median error counts.
	Runs int
	// Names selects experiments (see Names); without any, all are run.
	Names []string
	// Sets changes settings of all experiments.
	Sets []string
	// Apart says that every device has a process of its own, which psim starts.
	Apart bool
	// Flags is the text of the options that differ from the defaults.
	Flags string
	// Journal is a file that keeps runs until all are done. Runs in it are not repeated. "" is
	// no file.
	Journal string
	// Warn, which may be nil, is called with what the user should know.
	Warn func(warning string)

	// overProcesses runs an example over several processes; nil is psim itself.
	overProcesses func(ctx context.Context, e experiment, sets []string) (results.Result, error)
}

// An ExecutedRow is one experiment that was predicted and then run.
type ExecutedRow struct {
	Example      string  `json:"example"`
	Model        string  `json:"model"`
	Kind         string  `json:"kind"`
	Microbatches int     `json:"microbatches"`
	Processes    int     `json:"processes,omitempty"` // absent for one
	MPI          bool    `json:"mpi,omitempty"`       // they talk over MPI
	Predicted    float64 `json:"predicted_s"`
	Measured     float64 `json:"measured_s"`     // the median of the steps
	Deviation    float64 `json:"measured_std_s"` // 0 for one step
	Steps        int     `json:"steps"`
	Error        float64 `json:"error"` // of the step time, relative to the predicted one
	// Bubble is the measured bubble of a pipeline, as a share of the makespan; 0 for replicas.
	Bubble      float64 `json:"bubble"`
	BubbleError float64 `json:"bubble_error"`
	// PredictedPeak and Peak are the largest of any rank.
	PredictedPeak int64   `json:"predicted_peak_bytes"`
	Peak          int64   `json:"peak_bytes"`
	HeapGrowth    int64   `json:"heap_growth_bytes"`
	Dispatch      float64 `json:"dispatch"` // as a share of the step, on the worst rank
	Makespan      float64 `json:"makespan_s"`
	// SpeedUp is the speed-up of the makespan over model-parallel's with the same microbatches,
	// and Ideal the one of equal stages and free messages.
	SpeedUp float64 `json:"speed_up,omitempty"`
	Ideal   float64 `json:"ideal_speed_up,omitempty"`
	// Errors are those of all runs, in ascending order; the one in the middle counts.
	Errors    []float64 `json:"errors"`
	Disturbed bool      `json:"disturbed"` // the machine was disturbed in the run that counts
}

// An ExecutedReport is the result of all experiments.
type ExecutedReport struct {
	Machine     string        `json:"machine"`
	Devices     int           `json:"devices"`
	SIMD        string        `json:"simd"`
	Flags       string        `json:"flags"` // that differ from the defaults
	Rows        []ExecutedRow `json:"rows"`
	Chosen      int           `json:"experiments"`       // that were asked for
	Runs        int           `json:"runs"`              // of each experiment that were asked for
	Partial     bool          `json:"partial,omitempty"` // ended before the last run
	MedianError float64       `json:"median_error"`      // absolute
	WorstError  float64       `json:"worst_error"`
	WorstBubble float64       `json:"worst_bubble_error"`
	SamePeak    int           `json:"same_peak"` // rows whose ledger is as predicted, to the byte
}

// Run predicts and runs the experiments. If an error ends it early, it also returns the rows so
// far.
func Run(ctx context.Context, o Options) (*ExecutedReport, error) {
	list, err := choose(o.Names)
	if err != nil {
		return nil, err
	}
	for _, model := range models() { // errors come before the first experiment
		if _, _, err := session.Load(model, o.Devices, o.Sets...); err != nil {
			return nil, err
		}
	}
	if o.overProcesses == nil {
		o.overProcesses = o.runPsim
	}
	r := &ExecutedReport{
		Flags: o.Flags, Machine: backend.Processor(), Devices: o.Devices, SIMD: backend.SIMD(),
		Chosen: len(list), Runs: max(1, o.Runs),
	}
	defer r.summarize()
	known, err := openJournal(o.Journal, r, o.Warn)
	if err != nil {
		return nil, err
	}
	err = o.rounds(ctx, list, known)
	for _, e := range list {
		if made := known.runs(e); len(made) > 0 {
			r.Rows = append(r.Rows, medianRun(made))
		}
	}
	r.Partial = err != nil
	return r, errors.Join(err, known.close())
}

// rounds makes the runs that are missing: one of every experiment before the next of any, so
// that what disturbs the machine for some minutes affects one run of an experiment.
func (o Options) rounds(ctx context.Context, list []experiment, known *journal) error {
	for n := range max(1, o.Runs) {
		for _, e := range list {
			if len(known.runs(e)) > n {
				continue
			}
			row, err := o.runOnce(ctx, e, n)
			if err == nil {
				err = known.add(row)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// medianRun makes a row of an experiment's runs: the one with the median error.
func medianRun(runs []ExecutedRow) ExecutedRow {
	runs = slices.SortedFunc(slices.Values(runs), func(a, b ExecutedRow) int { return cmp.Compare(a.Error, b.Error) })
	row := runs[(len(runs)-1)/2]
	for _, run := range runs {
		row.Errors = append(row.Errors, run.Error)
	}
	return row
}

// runOnce runs an experiment for the n-th time.
func (o Options) runOnce(ctx context.Context, e experiment, n int) (ExecutedRow, error) {
	sets := append(slices.Clone(e.sets), o.Sets...)
	c, _, err := session.Load(e.model, o.Devices, sets...)
	if err != nil {
		return ExecutedRow{}, err
	}
	say := func(what string) {
		if o.Session.Measure.Stage != nil {
			o.Session.Measure.Stage(fmt.Sprintf("%s, run %d of %d: %s", e.model, n+1, o.Runs, what))
		}
	}
	var result results.Result
	if e.processes > 0 || o.Apart {
		name := ExecutedRow{Kind: e.kind, Processes: e.processes, MPI: e.mpi}.name()
		say(name)
		if result, err = o.overProcesses(ctx, e, sets); err != nil {
			return ExecutedRow{}, fmt.Errorf("%s: %w", name, err)
		}
	} else {
		s := &session.Session{Options: o.Session}
		s.Measure.Stage = say
		if err := s.Run(ctx, c); err != nil {
			return ExecutedRow{}, err
		}
		result = s.Main().Result
	}
	plan, err := c.Build()
	if err != nil {
		return ExecutedRow{}, err
	}
	row := newRow(e, result)
	row.Model = plan.Staged.Network.Name
	return row, nil
}

// newRow makes a row of the result of an experiment.
func newRow(e experiment, r results.Result) ExecutedRow {
	c := compare.Compare(results.Run{Result: *r.Predicted}, results.Run{Result: r})
	row := ExecutedRow{
		Example: e.model, Kind: e.kind, Microbatches: e.microbatches, Processes: e.processes, MPI: e.mpi,
		Predicted: r.Predicted.StepTime, Measured: r.StepTimeMedian, Deviation: r.StepTimeStd, Steps: len(r.Steps),
		Error:         r.StepTimeMedian/r.Predicted.StepTime - 1,
		PredictedPeak: c.A.PeakMemory, Peak: c.B.PeakMemory, HeapGrowth: r.HeapGrowth,
		Disturbed: r.Disturbed, Makespan: r.Makespan,
	}
	if r.Stages > 1 {
		row.Bubble, row.BubbleError = r.Bubble.Makespan, float64(c.BubbleDifference)
	}
	for _, rank := range r.Ranks {
		if rank.Dispatch != nil {
			row.Dispatch = max(row.Dispatch, *rank.Dispatch/r.StepTime)
		}
	}
	return row
}

// summarize fills in the speed-ups, and the errors of all rows.
func (r *ExecutedReport) summarize() {
	alone := map[string]float64{} // by example and microbatches, the makespan of model-parallel
	key := func(row ExecutedRow) string { return fmt.Sprint(row.Example, row.Microbatches) }
	for _, row := range r.Rows {
		if row.Kind == "model-parallel" {
			alone[key(row)] = row.Makespan
		}
	}
	var off []float64
	for i := range r.Rows {
		row := &r.Rows[i]
		if base := alone[key(*row)]; base > 0 && row.Processes == 0 && slices.Contains(session.Modes(), row.Kind) {
			row.SpeedUp = base / row.Makespan
			row.Ideal = float64(r.Devices*row.Microbatches) / float64(row.Microbatches+r.Devices-1)
			if row.Kind == "model-parallel" {
				row.Ideal = 1
			}
		}
		off = append(off, math.Abs(row.Error))
		r.WorstBubble = max(r.WorstBubble, math.Abs(row.BubbleError))
		if row.Peak == row.PredictedPeak {
			r.SamePeak++
		}
	}
	if len(off) == 0 {
		return
	}
	r.MedianError, r.WorstError = units.Median(off), slices.Max(off)
}
