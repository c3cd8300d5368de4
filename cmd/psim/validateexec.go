package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"psim/configs"
	"psim/exec"
	"psim/exec/programs"
	"psim/reports"
)

// executedRow is one experiment that was predicted and then run.
type executedRow struct {
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
	// microbatches, and
	// Ideal what equal stages and free messages would give.
	SpeedUp float64 `json:"speed_up"`
	Ideal   float64 `json:"ideal_speed_up"`

	// Runs is how often it was run, because the machine was disturbed.
	Runs int `json:"runs"`

	makespan float64
}

// executedReport is what psim validate --executed finds.
type executedReport struct {
	Machine     string        `json:"machine"`
	Devices     int           `json:"devices"`
	SIMD        string        `json:"simd"`
	Flags       string        `json:"flags"` // that differ from the defaults
	Rows        []executedRow `json:"rows"`
	Partial     bool          `json:"partial,omitempty"` // ended before the last row
	MedianError float64       `json:"median_error"`      // absolute
	WorstError  float64       `json:"worst_error"`
	WorstBubble float64       `json:"worst_bubble_error"`
	SamePeak    int           `json:"same_peak"` // rows whose ledger is as predicted, to the byte
}

// executedModels are the networks of the report, and executedMicrobatches the
// sizes of their pipelines.
var (
	executedModels       = [...]string{"exec", "exec-mlp"}
	executedSchedules    = [...]string{"model-parallel", "gpipe", "1f1b"}
	executedMicrobatches = [...]int{2, 4, 8}
)

// runExecuted predicts and runs every combination. What ends it early comes back
// as an error, with the rows until then.
func runExecuted(ctx context.Context, f execFlags, p *progress) (*executedReport, error) {
	for _, model := range executedModels { // before any of them takes time
		if _, err := f.load(model, io.Discard); err != nil {
			return nil, err
		}
	}
	r := &executedReport{Flags: f.changes(), Machine: programs.Processor(), Devices: f.gpus, SIMD: programs.SIMD()}
	for _, model := range executedModels {
		for _, m := range executedMicrobatches {
			var alone float64 // the makespan of model-parallel
			for _, schedule := range executedSchedules {
				row, err := executeRow(ctx, f, p, model, schedule, m)
				if err != nil {
					r.Partial = true
					r.summarize()
					return r, err
				}
				if schedule == "model-parallel" {
					alone = row.makespan
				}
				row.SpeedUp, row.Ideal = alone/row.makespan, 1
				if schedule != "model-parallel" {
					row.Ideal = float64(f.gpus*m) / float64(m+f.gpus-1)
				}
				r.Rows = append(r.Rows, row)
			}
		}
	}
	r.summarize()
	return r, nil
}

func executeRow(ctx context.Context, f execFlags, p *progress, model, schedule string, m int) (executedRow, error) {
	c, err := f.load(model, io.Discard, "schedule.name="+schedule, fmt.Sprint("schedule.microbatches=", m))
	if err != nil {
		return executedRow{}, err
	}
	for runs := 1; ; runs++ {
		before, err := machineSpeed(f.gpus)
		if err != nil {
			return executedRow{}, failure{err}
		}
		s := &session{flags: f, progress: p}
		if err := s.run(ctx, []*configs.Config{c}); err != nil {
			return executedRow{}, err
		}
		after, err := machineSpeed(f.gpus)
		if err != nil {
			return executedRow{}, failure{err}
		}
		row := newExecutedRow(s.main().plan.Workload.Network.Name, s.main().result)
		if row.Runs = runs; runs == f.runs || !row.disturbed(before, after) {
			return row, nil
		}
	}
}

// An experiment is run again if the machine was disturbed: if its speed at a fixed
// piece of work changed by more than this, or the steps deviate from each other by
// more.
const unsteady = 0.04

func (r executedRow) disturbed(before, after float64) bool {
	return math.Abs(after/before-1) > unsteady || r.Deviation > unsteady*r.Measured
}

// machineSpeed is the rate of matrix products in FLOP/s that the slowest of a
// number of devices reaches when all compute at once.
func machineSpeed(devices int) (float64, error) {
	list, err := exec.OpenDevices(devices, exec.DeviceOptions{Oversubscribe: true})
	if err != nil {
		return 0, err
	}
	defer exec.CloseDevices(list)
	speeds, errs := make([]float64, devices), make([]error, devices)
	var all sync.WaitGroup
	for i, d := range list {
		all.Go(func() { speeds[i], errs[i] = d.MatrixSpeed(256, 50*time.Millisecond) })
	}
	all.Wait()
	return slices.Min(speeds), errors.Join(errs...)
}

func newExecutedRow(model string, r reports.Result) executedRow {
	c := reports.Compare(reports.Run{Result: *r.Predicted}, reports.Run{Result: r})
	row := executedRow{
		Model: model, Schedule: r.Schedule, Microbatches: r.Microbatches,
		Predicted: r.Predicted.StepTime, Measured: r.StepTime, Deviation: r.StepTimeStd, Steps: len(r.Steps),
		Error: c.StepTimeError, BubbleError: c.BubbleError, Bubble: r.Bubble.Makespan,
		PredictedPeak: c.A.PeakMemory, Peak: c.B.PeakMemory, HeapGrowth: r.HeapGrowth, makespan: r.Makespan,
	}
	for _, rank := range r.Ranks {
		if rank.Dispatch != nil {
			row.Dispatch = max(row.Dispatch, *rank.Dispatch/r.StepTime)
		}
	}
	return row
}

func (r *executedReport) summarize() {
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

// executedSteps are measured unless --steps says otherwise, and an experiment is run
// executedRuns times at most unless --runs does.
const (
	executedSteps = 9
	executedRuns  = 8
)

// executedFlags change what --executed runs, and nothing without it.
var executedFlags = []string{"gpus", "steps", "runs", "oversubscribe", "set"}

// registerExecuted declares the flags that --executed takes beside.
func (f *execFlags) registerExecuted(cmd *cobra.Command) {
	f.register(&cobra.Command{}) // for the defaults
	flags := cmd.Flags()
	flags.IntVar(&f.gpus, "gpus", 2, "number of devices of --executed")
	flags.IntVar(&f.steps, "steps", executedSteps, "number of steps that --executed measures")
	flags.IntVar(&f.runs, "runs", executedRuns, "how often --executed runs an experiment at most, until the machine is not disturbed")
	flags.BoolVar(&f.oversubscribe, "oversubscribe", false, "let --executed use more devices than cores")
	flags.StringArrayVar(&f.sets, "set", nil, "change a setting of all experiments of --executed")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress on stderr")
}

// changes are the flags of --executed that were given other values.
func (f execFlags) changes() (text string) {
	if f.gpus != 2 {
		text += fmt.Sprintf(" --gpus %d", f.gpus)
	}
	if f.steps != executedSteps {
		text += fmt.Sprintf(" --steps %d", f.steps)
	}
	if f.runs != executedRuns {
		text += fmt.Sprintf(" --runs %d", f.runs)
	}
	for _, set := range f.sets {
		text += " --set " + set
	}
	return text
}

// validateExecuted makes and prints the report.
func validateExecuted(ctx context.Context, f execFlags, markdown bool, stdout, stderr io.Writer) error {
	if f.gpus == 0 {
		return errors.New("--gpus 0: there must be at least 1 device")
	}
	if f.runs < 1 || f.runs > mostSteps {
		return fmt.Errorf("--runs %d: must be between 1 and %d", f.runs, mostSteps)
	}
	if err := f.validate(); err != nil {
		return err
	}
	p := newProgress(stderr, f.quiet)
	r, err := runExecuted(ctx, f, p)
	p.clear()
	if r == nil || len(r.Rows) == 0 {
		return err
	}
	switch {
	case f.json:
		return errors.Join(r.writeJSON(stdout), err)
	case markdown:
		return errors.Join(r.writeMarkdown(stdout), err)
	}
	return errors.Join(r.writeText(stdout), err)
}
