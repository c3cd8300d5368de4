// Package measure measures real runs. It measures a whole job ([Job]), every task of a step
// alone and next to others ([Tasks]), every layer by itself ([Layers]), and how steady the
// machine is ([NewProbe]). It compares what was trained with an unsplit run. It does not know
// predictions; package session joins the two.
package measure

import (
	"context"
	"fmt"
	"runtime"

	"psim/exec/backend"
	"psim/exec/cluster"
	"psim/exec/data"
	"psim/exec/run"
	"psim/exec/train"
	"psim/internal/ram"
	"psim/internal/units"
)

// Options say on what to run a job, with which data, and what to measure.
type Options struct {
	Devices backend.Options
	Data    data.Options
	// Train says how long to train and what to keep.
	Train train.Options
	// Repeats is how often every task is measured alone, before the run; 0 is never.
	Repeats int
	// Probe times a fixed product before the measurement, before the steps and after them, if
	// times are comparable.
	Probe bool
	// Profiled, if set, is called with the times of the tasks. An error that it returns ends
	// the measurement before the run.
	Profiled func(Profile) error
	// Checks names what to compare with the unsplit run (see CheckNames).
	Checks []string
	// References keeps the runs to compare with for further jobs; nil keeps none.
	References References
	// Stage, if set, is called when another part of the work begins.
	Stage func(what string)
}

// world returns the processes that measure together; nil for this one alone.
func (o Options) world() *cluster.World { return o.Train.Run.World }

// follows reports whether this process is not the first.
func (o Options) follows() bool { return o.Train.Run.Follows() }

// Findings are the measurements of a job.
type Findings struct {
	// Trained has the traces of the measured steps, with the memory that the ledgers of the
	// devices have counted, and the losses of all steps.
	train.Trained
	// Profile has the times of tasks before the steps, alone and together.
	Profile Profile
	// Probes are the times of the fixed product; nil unless asked for.
	Probes []Probe
	// HeapGrowth is by how much this process's heap grew.
	HeapGrowth int64
	// Verdict compares with the unsplit run; nil if that was not asked for.
	Verdict *Verdict
	// Comparable says that no two devices shared a core or a GPU.
	Comparable bool
	// Processes are those that ran the job together; nil for this one alone.
	Processes []run.Participant
	// Samples is how many there were to train on, and Shards which of them every replica had.
	Samples int
	Shards  [][]int
}

// Job runs a job on devices that it opens and closes: it measures every task alone, trains some
// steps by running the graph, and checks what was trained. When ctx ends, or a run fails, it
// returns what was measured so far with the error, or nil if nothing was.
//
// Several processes all call it. Only the first one calls Profiled, checks, and returns
// something.
func Job(ctx context.Context, job train.Job, o Options) (m *Findings, err error) {
	if o.Train.Steps < 1 && o.Train.Epochs < 1 {
		return nil, fmt.Errorf("%d steps: at least 1 has to be measured", o.Train.Steps)
	}
	defer ram.LimitHeap()()
	if o.world() == nil {
		return measureJob(ctx, job, o)
	}
	ctx, cancel := o.world().Context(ctx)
	defer cancel()
	if m, err = measureJob(ctx, job, o); err != nil {
		o.world().Abort(err)
	}
	if o.follows() {
		m = nil
	}
	return m, err
}

// measureJob does the work of Job in this process's part of a run.
func measureJob(ctx context.Context, job train.Job, o Options) (*Findings, error) {
	o.Train.Record = len(o.Checks) > 0
	runtime.GC()
	m := &Findings{HeapGrowth: -ram.Heap()}
	o.say("opening %s", units.Plural(job.Graph.Ranks(), "device"))
	opened, err := backend.OpenRanks(ctx, job.Graph.Ranks(), o.Devices, o.world())
	if err != nil {
		return nil, err
	}
	defer backend.Close(opened.Devices)
	m.Comparable, o.Probe = opened.Comparable, o.Probe && opened.Comparable
	m.HeapGrowth -= opened.Heap
	steps := o.Train.Total()
	if o.Train.Epochs > 0 {
		steps = 0
	}
	source, err := data.NewSource(o.Data, job.Network, job.PerReplica(), steps)
	if err != nil {
		return nil, fmt.Errorf("--data %s: %w", o.Data.Source, err)
	}
	if o.Train, err = o.Train.InSteps(source.Steps()); err != nil {
		return nil, err
	}
	m.Samples, m.Shards = source.Len(), source.Shards()
	r := jobRun{o, job, opened.Devices, source}
	err = m.run(ctx, r, opened.Cores)
	if len(m.Traces) == 0 {
		return nil, err
	}
	switch {
	case err != nil || !o.Train.Record:
	case o.follows():
		err = r.assistCheck(ctx)
	default:
		m.Verdict, err = r.check(ctx, m.Record)
	}
	return m, err
}

// A jobRun is a job with the devices and the data that it runs on.
type jobRun struct {
	Options
	job     train.Job
	devices []*backend.LocalDevice // by rank
	source  *data.Source
}

// run profiles the tasks of a job and trains it.
func (m *Findings) run(ctx context.Context, r jobRun, cores int) error {
	r.say("compiling")
	trainer, err := train.NewTrainer(r.job, r.devices)
	if err != nil {
		return fmt.Errorf("%s: %w", r.job.Network.Name, err)
	}
	defer trainer.Close()
	if err := m.probe(ctx, r); err != nil {
		return err
	}
	if r.Repeats > 0 {
		if err := m.profile(ctx, r, trainer, cores); err != nil {
			return err
		}
	}
	if err := m.probe(ctx, r); err != nil {
		return err
	}
	r.Train.Progress = r.steps("")
	trained, err := trainer.Train(ctx, r.source, r.Train)
	m.Trained, m.Processes = *trained, trainer.Participants(r.world())
	m.HeapGrowth = max(0, m.HeapGrowth+m.Heap)
	if err == nil {
		err = m.probe(ctx, r)
	}
	return run.Failed(err)
}

// profile measures every task alone, and passes on what was found.
func (m *Findings) profile(ctx context.Context, r jobRun, trainer *train.Trainer, cores int) (err error) {
	r.say("profiling every task alone")
	rounds := Rounds{r.Train.Run, r.Repeats}
	rounds.AtOnce = cores
	if m.Profile, err = Tasks(ctx, trainer, r.source.Batch(0), rounds); err != nil {
		return run.Failed(err)
	}
	if r.Profiled != nil && !r.follows() {
		return r.Profiled(m.Profile)
	}
	return nil
}

func (o Options) say(format string, args ...any) {
	if o.Stage != nil {
		o.Stage(fmt.Sprintf(format, args...))
	}
}

// steps returns a function that reports the progress of steps, in addition to the caller's. Its
// texts begin with a text.
func (o Options) steps(text string) func(step, total int) {
	progress := o.Train.Progress
	return func(step, total int) {
		if o.Train.Epochs > 0 {
			each := o.Train.Steps / o.Train.Epochs
			o.say("%sepoch %d, step %d of %d (%d of %d in all)", text, step/each+1, step%each+1, each, step+1, total)
		} else {
			o.say("%sstep %d of %d", text, step+1, total)
		}
		if progress != nil {
			progress(step, total)
		}
	}
}
