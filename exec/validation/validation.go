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
	"psim/reports"
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
	// Journal is a file that keeps rows until all are there: those in it are not run again.
	// "" is none.
	Journal string

	// apart runs an example over several processes; nil for psim itself.
	apart func(ctx context.Context, example string, processes int, sets []string) (reports.Result, error)
}

// A Row is one experiment that was predicted and then run.
type Row struct {
	Example      string  `json:"example"`
	Model        string  `json:"model"`
	Kind         string  `json:"kind"`
	Microbatches int     `json:"microbatches"`
	Processes    int     `json:"processes,omitempty"` // absent for one
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
	Partial     bool    `json:"partial,omitempty"` // ended before the last row
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
	r := &Report{Flags: o.Flags, Machine: programs.Processor(), Devices: o.Devices, SIMD: programs.SIMD(), Chosen: len(list)}
	defer r.summarize()
	known, err := openJournal(o.Journal, r)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		row, found := known.row(e)
		if !found {
			if row, err = o.run(ctx, e); err == nil {
				err = known.add(row)
			}
		}
		if err != nil {
			r.Partial = true
			return r, errors.Join(err, known.close())
		}
		r.Rows = append(r.Rows, row)
	}
	return r, known.close()
}

// run makes a row: that of the run whose error is the median.
func (o Options) run(ctx context.Context, e experiment) (Row, error) {
	var rows []Row
	var off []float64
	for n := range max(1, o.Runs) {
		row, err := o.once(ctx, e, n)
		if err != nil {
			return row, err
		}
		rows, off = append(rows, row), append(off, row.Error)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Error, b.Error) })
	slices.Sort(off)
	row := rows[(len(rows)-1)/2]
	row.Errors = off
	return row, nil
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
	var result reports.Result
	if e.processes > 0 {
		say(fmt.Sprintf("%s over %d processes", e.kind, e.processes))
		if result, err = o.apart(ctx, e.model, e.processes, sets); err != nil {
			return Row{}, fmt.Errorf("%s over %d processes: %w", e.kind, e.processes, err)
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
	row.Model = plan.Workload.Network.Name
	return row, nil
}

func newRow(e experiment, r reports.Result) Row {
	c := reports.Compare(reports.Run{Result: *r.Predicted}, reports.Run{Result: r})
	row := Row{
		Example: e.model, Kind: e.kind, Microbatches: e.microbatches, Processes: e.processes,
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
	slices.Sort(off)
	n := len(off)
	r.MedianError, r.WorstError = (off[(n-1)/2]+off[n/2])/2, off[n-1]
}
