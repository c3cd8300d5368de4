// Package exec runs a task graph for real: the same graph that package sim
// predicts, with the same rules. [Measure] does all of it in one call: it opens
// devices, measures every task alone, trains some steps, and compares what was
// trained with an unsplit run. [Run] is the part that knows about graphs and nothing
// about what tasks do: one goroutine per stream takes its tasks in order, each after
// what it depends on, and the spans it records are a trace like the simulator's.
//
// This package sees no prediction; package session joins the two.
package exec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psim/exec/processes"
	"psim/internal/units"
)

// MeasureOptions say on what to run a job, with which data, and what to measure.
type MeasureOptions struct {
	Devices DeviceOptions
	Data    DataOptions
	TrainOptions
	// Repeats is how often every task is measured alone, before the run; 0
	// leaves that out. Profiled is then called with what was found, if it is set:
	// an error of it ends the measurement before the run.
	Repeats int
	// Probe times a fixed product before the measurement, before the steps and
	// after them, where times are comparable.
	Probe    bool
	Profiled func(Profile) error
	// Checks names what to compare with the unsplit run: CheckNames lists what
	// there is. References keeps those runs for further jobs; nil keeps none.
	Checks     []string
	References References
	// Stage is called when another part of the work begins, if it is set.
	Stage func(what string)
}

// A Measurement is what running a job has shown.
type Measurement struct {
	// Training has the traces of the measured steps, with the memory that the
	// devices' ledgers have counted, and the losses of all steps.
	Training
	// Profile has what tasks took before the steps, alone and together.
	Profile Profile
	// Probes are the times of the fixed product; none unless asked for.
	Probes []Probe
	// HeapGrowth is by how much the process's own heap grew.
	HeapGrowth int64
	// Verdict compares with the unsplit run; nil if that was not asked for.
	Verdict *Verdict
	// Comparable says that times are those of devices of their own.
	Comparable bool
	// Processes are those that ran the job together; none where it was this one alone.
	Processes []Member
	// Samples there were to train on, and which of them every replica had.
	Samples int
	Shards  [][]int
}

// A Member is a process that took part in a run.
type Member struct {
	processes.Process
	ClockResidual time.Duration // by how much its times may be off from the first's
}

// A RunError is what ended a run that had begun: the job and the options are
// not at fault.
type RunError struct{ Err error }

// Error is the message of what ended the run.
func (e *RunError) Error() string { return e.Err.Error() }

// Unwrap returns what ended the run.
func (e *RunError) Unwrap() error { return e.Err }

// duringRun marks an error of a run, unless somebody has ended it.
func duringRun(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &RunError{err}
}

// Measure runs a job on devices that it opens and closes: it measures every task
// alone, trains some steps by running the graph, and checks what was trained. When
// ctx ends, or a run fails, it returns what was measured until then with the
// error; it returns nil where nothing was. Of several processes, which all call it, the
// first measures; it alone is told of the profile, checks, and returns something.
func Measure(ctx context.Context, job Job, o MeasureOptions) (m *Measurement, err error) {
	if o.Steps < 1 && o.Epochs < 1 {
		return nil, fmt.Errorf("%d steps: at least 1 has to be measured", o.Steps)
	}
	defer limitHeap()()
	if o.World == nil {
		return measure(ctx, job, o)
	}
	ctx, cancel := o.World.Context(ctx)
	defer cancel()
	if m, err = measure(ctx, job, o); err != nil {
		o.World.Abort(err)
	}
	if o.follows() {
		m = nil
	}
	return m, err
}

func measure(ctx context.Context, job Job, o MeasureOptions) (*Measurement, error) {
	o.Record = len(o.Checks) > 0
	m := &Measurement{HeapGrowth: -Heap()}
	o.say("opening %s", units.Plural(job.Graph.Ranks(), "device"))
	opened, err := o.Devices.openRanks(ctx, job.Graph.Ranks(), o.World)
	if err != nil {
		return nil, err
	}
	devices := opened.devices
	defer CloseDevices(devices)
	m.Comparable, o.Probe = opened.comparable, o.Probe && opened.comparable
	m.HeapGrowth -= opened.heap
	steps := o.Total()
	if o.Epochs > 0 {
		steps = 0
	}
	source, err := NewSource(o.Data, job.Network, job.PerReplica(), steps)
	if err != nil {
		return nil, fmt.Errorf("--data %s: %w", o.Data.Source, err)
	}
	if o.TrainOptions, err = o.inSteps(len(source.steps)); err != nil {
		return nil, err
	}
	m.Samples, m.Shards = source.Len(), source.shards
	err = m.run(ctx, job, opened, source, o)
	if len(m.Traces) == 0 {
		return nil, err
	}
	switch {
	case err != nil || !o.Record:
	case o.follows():
		err = o.assist(ctx, job, devices, source)
	default:
		m.Verdict, err = o.check(ctx, job, devices, source, m.Record)
	}
	return m, err
}

func (m *Measurement) run(ctx context.Context, job Job, opened ranksOpened, source *Source, o MeasureOptions) error {
	o.say("compiling")
	devices := opened.devices
	trainer, err := NewTrainer(job, devices)
	if err != nil {
		return fmt.Errorf("%s: %w", job.Network.Name, err)
	}
	defer trainer.Close()
	if err := m.probe(ctx, devices, o); err != nil {
		return err
	}
	if o.Repeats > 0 {
		o.say("profiling every task alone")
		together := o.RunOptions
		together.AtOnce = opened.cores
		if m.Profile, err = trainer.Profile(ctx, source.Batch(0), o.Repeats, together); err != nil {
			return duringRun(err)
		}
		if o.Profiled != nil && !o.follows() {
			if err := o.Profiled(m.Profile); err != nil {
				return err
			}
		}
	}
	if err := m.probe(ctx, devices, o); err != nil {
		return err
	}
	o.Progress = o.steps("")
	training, err := trainer.Train(ctx, source, o.TrainOptions)
	m.Training, m.Processes = *training, members(o.World, trainer.residual)
	m.HeapGrowth = max(0, m.HeapGrowth+m.Heap)
	if err == nil {
		err = m.probe(ctx, devices, o)
	}
	return duringRun(err)
}

func (o MeasureOptions) say(format string, args ...any) {
	if o.Stage != nil {
		o.Stage(fmt.Sprintf(format, args...))
	}
}

// steps returns what tells of the steps of a run, beside what the caller has set.
func (o MeasureOptions) steps(of string) func(step, total int) {
	progress := o.Progress
	return func(step, total int) {
		if o.Epochs > 0 {
			each := o.Steps / o.Epochs
			o.say("%sepoch %d, step %d of %d (%d of %d in all)", of, step/each+1, step%each+1, each, step+1, total)
		} else {
			o.say("%sstep %d of %d", of, step+1, total)
		}
		if progress != nil {
			progress(step, total)
		}
	}
}
