// Package validation predicts steps of two networks, three schedules and several
// numbers of microbatches, runs them, and says how far off the predictions were.
package validation

import (
	"context"
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
	// Sets changes settings of all experiments.
	Sets []string
	// Flags is the text of what differs from the usual options.
	Flags string
}

// A Row is one experiment that was predicted and then run.
type Row struct {
	Model        string  `json:"model"`
	Schedule     string  `json:"schedule"`
	Microbatches int     `json:"microbatches"`
	Predicted    float64 `json:"predicted_s"`
	Measured     float64 `json:"measured_s"`
	Deviation    float64 `json:"measured_std_s"` // 0 for one step
	Steps        int     `json:"steps"`
	Error        float64 `json:"error"` // of the step time, of the predicted one
	BubbleError  float64 `json:"bubble_error"`
	Bubble       float64 `json:"bubble"` // measured, of the makespan
	// PredictedPeak and Peak are the largest of any rank.
	PredictedPeak int64   `json:"predicted_peak_bytes"`
	Peak          int64   `json:"peak_bytes"`
	HeapGrowth    int64   `json:"heap_growth_bytes"`
	Dispatch      float64 `json:"dispatch"` // of the step, on the worst rank
	// SpeedUp is that of the makespan over model-parallel's with the same
	// microbatches, and Ideal what equal stages and free messages would give.
	SpeedUp float64 `json:"speed_up"`
	Ideal   float64 `json:"ideal_speed_up"`
	// Runs is how often it was run, because the machine was disturbed, and Disturbed
	// whether it still was in the best of them.
	Runs      int  `json:"runs"`
	Disturbed bool `json:"disturbed"`

	makespan float64
}

// A Report is what was found.
type Report struct {
	Machine     string  `json:"machine"`
	Devices     int     `json:"devices"`
	SIMD        string  `json:"simd"`
	Flags       string  `json:"flags"` // that differ from the defaults
	Rows        []Row   `json:"rows"`
	Partial     bool    `json:"partial,omitempty"` // ended before the last row
	MedianError float64 `json:"median_error"`      // absolute
	WorstError  float64 `json:"worst_error"`
	WorstBubble float64 `json:"worst_bubble_error"`
	SamePeak    int     `json:"same_peak"` // rows whose ledger is as predicted, to the byte
}

// models lists the networks of the report, and microbatches the sizes of their
// pipelines.
func models() []string    { return []string{"exec", "exec-mlp"} }
func microbatches() []int { return []int{2, 4, 8} }

// Run predicts and runs every combination. What ends it early comes back as an
// error, with the rows until then.
func Run(ctx context.Context, o Options) (*Report, error) {
	for _, model := range models() { // before any of them takes time
		if _, _, err := session.Load(model, o.Devices, o.Sets...); err != nil {
			return nil, err
		}
	}
	r := &Report{Flags: o.Flags, Machine: programs.Processor(), Devices: o.Devices, SIMD: programs.SIMD()}
	defer r.summarize()
	for _, model := range models() {
		for _, m := range microbatches() {
			if err := r.compare(ctx, o, model, m); err != nil {
				r.Partial = true
				return r, err
			}
		}
	}
	return r, nil
}

func (r *Report) compare(ctx context.Context, o Options, model string, m int) error {
	var alone float64 // the makespan of model-parallel
	for _, schedule := range session.Modes() {
		row, err := run(ctx, o, model, schedule, m)
		if err != nil {
			return err
		}
		row.Ideal = float64(o.Devices*m) / float64(m+o.Devices-1)
		if schedule == "model-parallel" {
			alone, row.Ideal = row.makespan, 1
		}
		row.SpeedUp = alone / row.makespan
		r.Rows = append(r.Rows, row)
	}
	return nil
}

// run makes a row.
func run(ctx context.Context, o Options, model, schedule string, m int) (Row, error) {
	sets := append([]string{"schedule.name=" + schedule, fmt.Sprint("schedule.microbatches=", m)}, o.Sets...)
	c, _, err := session.Load(model, o.Devices, sets...)
	if err != nil {
		return Row{}, err
	}
	s := &session.Session{Options: o.Options}
	if err := s.Run(ctx, c); err != nil {
		return Row{}, err
	}
	return newRow(s.Main()), nil
}

func newRow(run *session.Run) Row {
	r, c := run.Result, reports.Compare(run.Sides())
	row := Row{
		Model: run.Plan.Workload.Network.Name, Schedule: r.Schedule, Microbatches: r.Microbatches,
		Predicted: r.Predicted.StepTime, Measured: r.StepTime, Deviation: r.StepTimeStd, Steps: len(r.Steps),
		Error: c.StepTimeDifference, BubbleError: float64(c.BubbleDifference), Bubble: r.Bubble.Makespan,
		PredictedPeak: c.A.PeakMemory, Peak: c.B.PeakMemory, HeapGrowth: r.HeapGrowth,
		Runs: r.RunsMade, Disturbed: r.Disturbed, makespan: r.Makespan,
	}
	for _, rank := range r.Ranks {
		if rank.Dispatch != nil {
			row.Dispatch = max(row.Dispatch, *rank.Dispatch/r.StepTime)
		}
	}
	return row
}

func (r *Report) summarize() {
	var off []float64
	for _, row := range r.Rows {
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
