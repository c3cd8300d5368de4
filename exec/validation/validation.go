// Package validation predicts steps of two networks, spread over devices in several ways,
// runs them, and says how far off the predictions were.
package validation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"psim/exec/programs"
	"psim/exec/session"
	"psim/internal/units"
	"psim/results"
	"psim/results/compare"
)

// Options say how experiments are run.
type Options struct {
	session.Options
	// Devices is how many an experiment has.
	Devices int
	// Runs is how often each is run; that of the median error counts.
	Runs int
	// Names chooses experiments (see Names); none is all.
	Names []string
	// Sets changes settings of all experiments.
	Sets []string
	// Flags is the text of what differs from the usual options.
	Flags string
	// Journal is a file that keeps runs until all are there: those in it are not made again.
	// "" is none.
	Journal string

	// apart runs an example over several processes; nil for psim itself.
	apart func(ctx context.Context, e experiment, sets []string) (results.Result, error)
}

// A Row is one experiment that was predicted and then run.
type Row struct {
	Example      string  `json:"example"`
	Model        string  `json:"model"`
	Kind         string  `json:"kind"`
	Microbatches int     `json:"microbatches"`
	Processes    int     `json:"processes,omitempty"` // absent for one
	MPI          bool    `json:"mpi,omitempty"`       // which talk over MPI
	Predicted    float64 `json:"predicted_s"`
	Measured     float64 `json:"measured_s"`     // the median of the steps
	Deviation    float64 `json:"measured_std_s"` // 0 for one step
	Steps        int     `json:"steps"`
	Error        float64 `json:"error"` // of the step time, of the predicted one
	// Bubble is that of a pipeline, measured, of the makespan; 0 of replicas.
	Bubble      float64 `json:"bubble"`
	BubbleError float64 `json:"bubble_error"`
	// PredictedPeak and Peak are the largest of any rank.
	PredictedPeak int64   `json:"predicted_peak_bytes"`
	Peak          int64   `json:"peak_bytes"`
	HeapGrowth    int64   `json:"heap_growth_bytes"`
	Dispatch      float64 `json:"dispatch"` // of the step, on the worst rank
	Makespan      float64 `json:"makespan_s"`
	// SpeedUp is that of the makespan over model-parallel's with the same
	// microbatches, and Ideal what equal stages and free messages would give.
	SpeedUp float64 `json:"speed_up,omitempty"`
	Ideal   float64 `json:"ideal_speed_up,omitempty"`
	// Errors are those of all runs, from the least; the one in the middle counts.
	Errors    []float64 `json:"errors"`
	Disturbed bool      `json:"disturbed"` // the machine was, in the run that counts
}

// A Report is what was found.
type Report struct {
	Machine     string  `json:"machine"`
	Devices     int     `json:"devices"`
	SIMD        string  `json:"simd"`
	Flags       string  `json:"flags"` // that differ from the defaults
	Rows        []Row   `json:"rows"`
	Chosen      int     `json:"experiments"`       // that were asked for
	Runs        int     `json:"runs"`              // of each that were asked for
	Partial     bool    `json:"partial,omitempty"` // ended before the last run
	MedianError float64 `json:"median_error"`      // absolute
	WorstError  float64 `json:"worst_error"`
	WorstBubble float64 `json:"worst_bubble_error"`
	SamePeak    int     `json:"same_peak"` // rows whose ledger is as predicted, to the byte
}

// Run predicts and runs the experiments. What ends it early comes back as an error, with
// the rows until then.
func Run(ctx context.Context, o Options) (*Report, error) {
	list, err := choose(o.Names)
	if err != nil {
		return nil, err
	}
	for _, model := range models() { // before any of them takes time
		if _, _, err := session.Load(model, o.Devices, o.Sets...); err != nil {
			return nil, err
		}
	}
	if o.apart == nil {
		o.apart = o.overProcesses
	}
	r := &Report{Flags: o.Flags, Machine: programs.Processor(), Devices: o.Devices, SIMD: programs.SIMD(), Chosen: len(list), Runs: max(1, o.Runs)}
	defer r.summarize()
	known, err := openJournal(o.Journal, r)
	if err != nil {
		return nil, err
	}
	err = o.rounds(ctx, list, known)
	for _, e := range list {
		if made := known.runs(e); len(made) > 0 {
			r.Rows = append(r.Rows, middle(made))
		}
	}
	r.Partial = err != nil
	return r, errors.Join(err, known.close())
}

// rounds makes the runs that are not known: one of every experiment before the next of any,
// so that what disturbs the machine for some minutes falls on one run of an experiment.
func (o Options) rounds(ctx context.Context, list []experiment, known *journal) error {
	for n := range max(1, o.Runs) {
		for _, e := range list {
			if len(known.runs(e)) > n {
				continue
			}
			row, err := o.once(ctx, e, n)
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

// middle makes a row of an experiment's runs: that whose error is the median.
func middle(runs []Row) Row {
	runs = slices.SortedFunc(slices.Values(runs), func(a, b Row) int { return cmp.Compare(a.Error, b.Error) })
	row := runs[(len(runs)-1)/2]
	for _, run := range runs {
		row.Errors = append(row.Errors, run.Error)
	}
	return row
}

// once runs an experiment for the n-th time.
func (o Options) once(ctx context.Context, e experiment, n int) (Row, error) {
	sets := append(slices.Clone(e.sets), o.Sets...)
	c, _, err := session.Load(e.model, o.Devices, sets...)
	if err != nil {
		return Row{}, err
	}
	say := func(what string) {
		if o.Stage != nil {
			o.Stage(fmt.Sprintf("%s, run %d of %d: %s", e.model, n+1, o.Runs, what))
		}
	}
	var result results.Result
	if e.processes > 0 {
		name := Row{Kind: e.kind, Processes: e.processes, MPI: e.mpi}.name()
		say(name)
		if result, err = o.apart(ctx, e, sets); err != nil {
			return Row{}, fmt.Errorf("%s: %w", name, err)
		}
	} else {
		s := &session.Session{Options: o.Options}
		s.Stage = say
		if err := s.Run(ctx, c); err != nil {
			return Row{}, err
		}
		result = s.Main().Result
	}
	plan, err := c.Build()
	if err != nil {
		return Row{}, err
	}
	row := newRow(e, result)
	row.Model = plan.Staged.Network.Name
	return row, nil
}

func newRow(e experiment, r results.Result) Row {
	c := compare.Compare(results.Run{Result: *r.Predicted}, results.Run{Result: r})
	row := Row{
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

func (r *Report) summarize() {
	alone := map[string]float64{} // by example and microbatches, the makespan of model-parallel
	key := func(row Row) string { return fmt.Sprint(row.Example, row.Microbatches) }
	for _, row := range r.Rows {
		if row.Kind == "model-parallel" {
			alone[key(row)] = row.Makespan
		}
	}
	var off []float64
	for i := range r.Rows {
		row := &r.Rows[i]
		if base := alone[key(*row)]; base > 0 && row.Processes == 0 && slices.Contains(session.Modes(), row.Kind) {
			row.SpeedUp, row.Ideal = base/row.Makespan, float64(r.Devices*row.Microbatches)/float64(row.Microbatches+r.Devices-1)
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
