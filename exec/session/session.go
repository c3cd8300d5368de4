// Package session predicts configurations, runs them, and compares the two: it measures every
// task alone, predicts the step from these times, runs the same graph, and compares the
// measured step with the predicted one. It and package validation, which runs many sessions,
// are the only packages of execution that depend on predictions.
package session

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strings"

	"psim"
	"psim/configs"
	"psim/costmodel"
	"psim/exec/cluster"
	"psim/exec/kernels"
	"psim/exec/measure"
	"psim/exec/train"
	"psim/internal/ram"
	"psim/internal/units"
	"psim/results"
	"psim/schedules/graph"
)

// Options say how configurations are run. Steps (or Epochs) and Repeats must be at least 1: a
// prediction needs tasks that were measured alone.
type Options struct {
	// Measure says on what to run, with which data, and what to measure.
	Measure measure.Options
	// Seed of the first weights, and of dropout.
	Seed uint64
	// LearningRate of the optimizer; 0 is 1e-4 with adam and adamw, and 1e-3 with others.
	LearningRate float64
	// Tries is how often a configuration is run at most while the machine is disturbed; less
	// than 2 is once.
	Tries int
	// Starts is how often a configuration is started and checked, the devices in another order
	// each time; less than 2 is once.
	Starts int
	// Warn, which may be nil, is called with warnings before a run.
	Warn func(what string)
	// UnwaitedRates also reports the rates by a clock that does not wait for devices.
	UnwaitedRates bool
	// Python, if set, trains in PyTorch instead, by the Python with this path (see package pytorch).
	Python string
	// Shards also reports which samples every replica trains on.
	Shards bool
}

// world returns the processes that run together; nil for this one alone.
func (o Options) world() *cluster.World { return o.Measure.Train.Run.World }

// A Session runs configurations one after another. Configurations with the same unsplit run
// train that once.
type Session struct {
	Options
	// Runs lists what was run, the main one last.
	Runs []*Trial

	early bool // an error ended it before everything was run
}

// A Trial is a configuration that was predicted and then run.
type Trial struct {
	Config     *configs.Config
	Experiment *configs.Experiment
	// Predicted and Measured are the traces of a step; of the measured steps, the one with the
	// median time.
	Predicted, Measured *graph.Trace
	// Steps are the traces of all measured steps, in order.
	Steps []*graph.Trace
	// Result is the measured result, with the prediction in it.
	Result results.Result
	// Slower says how many times as long tasks of a kind take while other processes compute as alone; only
	// PyTorch's runs have it.
	Slower map[string]float64
	// Fastest is of PyTorch's runs too.
	Fastest Fastest
	// Verdict says whether the checks passed; nil if nothing was checked.
	Verdict *measure.Verdict

	simulation psim.Simulation   // of the predicted trace
	gradients  []train.Gradients // by rank, if they were asked for
	localRanks []int             // on this machine; nil for all
	failed     string            // the first start in which a check failed, and why; "" if none has
}

// Modes names the schedules with which a network is run to compare them, the main one last.
func Modes() []string { return []string{"model-parallel", "gpipe", "1f1b"} }

// Load reads a configuration and fits it to a number of devices; 0 is as many as it asks for.
// It says what had to be changed for that.
func Load(pathOrName string, devices int, sets ...string) (*configs.Config, []string, error) {
	c, err := psim.Load(pathOrName, sets...)
	if err != nil {
		return nil, nil, err
	}
	return c.Executable(devices)
}

// Run predicts and runs configurations. It keeps what was measured before an error. Several
// processes all call it; only the first one keeps something.
func (s *Session) Run(ctx context.Context, list ...*configs.Config) error {
	switch {
	case s.Measure.Repeats < 1:
		return fmt.Errorf("%d repeats: every task has to be measured alone at least once, for the prediction",
			s.Measure.Repeats)
	case s.Measure.Train.Steps < 1 && s.Measure.Train.Epochs < 1:
		return fmt.Errorf("%d steps: at least 1 has to be measured", s.Measure.Train.Steps)
	case s.Measure.References == nil:
		s.Measure.References = measure.References{}
	}
	if err := s.checkAgreement(ctx, list); err != nil {
		return err
	}
	for _, c := range list {
		r, err := s.run(ctx, c)
		if r != nil {
			s.Runs = append(s.Runs, r)
		}
		if err != nil {
			s.early = true
			if s.world() != nil {
				s.world().Abort(err)
			}
			return err
		}
	}
	return nil
}

// Check refuses configurations that this machine cannot run with all devices on it: those that
// cannot be built, or need more than its cores and its free memory.
func (o Options) Check(list ...*configs.Config) error {
	o.Warn = nil // Run warns
	for _, c := range list {
		r := &Trial{Config: c}
		if err := r.prepare(o); err != nil {
			return err
		}
		if err := o.Measure.Devices.Check(r.Experiment.Graph.Ranks()); err != nil {
			return err
		}
	}
	return nil
}

// run returns nil if nothing was measured.
func (s *Session) run(ctx context.Context, c *configs.Config) (*Trial, error) {
	if s.Python != "" {
		return s.runInPyTorch(ctx, c)
	}
	r, err := s.runSteadily(ctx, c)
	if err == nil && s.Starts > 1 {
		err = s.restart(ctx, c, r)
	}
	return r, err
}

// runSteadily runs a configuration as often as the machine is disturbed.
func (s *Session) runSteadily(ctx context.Context, c *configs.Config) (*Trial, error) {
	if s.world() != nil {
		return s.runTogether(ctx, c)
	}
	return leastDisturbed(s.Tries, func() (*Trial, error) { return s.runOnce(ctx, c) })
}

// runOnce runs a configuration once.
func (s *Session) runOnce(ctx context.Context, c *configs.Config) (*Trial, error) {
	r := &Trial{Config: c}
	if err := r.prepare(s.Options); err != nil {
		return nil, err
	}
	o := s.Measure
	o.Data.Samples = int(r.Experiment.DataSet)
	if s.Starts > 1 {
		o.Train.Run.StartSeed = 1
	}
	o.Profiled = func(p measure.Profile) error { return r.predict(o, p) }
	o.Probe = true
	if s.Measure.Stage != nil {
		o.Stage = func(what string) { s.Measure.Stage(r.Experiment.Graph.Name + ": " + what) }
	}
	m, err := measure.Job(ctx, r.job(s.Options), o)
	if m == nil {
		return nil, err
	}
	r.summarize(m, s.Options)
	r.Result.Partial = err != nil
	return r, err
}

// prepare builds the configuration, and refuses one that does not fit into this machine's
// memory.
func (r *Trial) prepare(o Options) error {
	err := r.build()
	if err == nil && !strings.HasPrefix(o.Measure.Devices.Backend, "xla") { // GPUs have memory of their own
		r.localRanks = ranksHere(r.Experiment.Graph.Ranks(), o.world())
		err = r.checkMemory(o, ram.Here())
	}
	return err
}

// build builds the configuration.
func (r *Trial) build() (err error) {
	if err := ram.CheckTasks(r.Config.Tasks()); err != nil {
		return fmt.Errorf("%s: %w", r.Config.Name(), err)
	}
	r.Experiment, err = r.Config.Build()
	return err
}

// predict simulates the step with the times of tasks that were measured alone, and with how
// much they slow each other down on the cores of the devices.
func (r *Trial) predict(o measure.Options, p measure.Profile) (err error) {
	e := *r.Experiment
	crosses := crossesProcesses(e.Graph, o.Train.Run.World)
	if e.Costs, err = costmodel.Profiled(e.Costs, e.Staged, p.Alone, crosses); err != nil {
		return err
	}
	e.Costs = costmodel.Crowded(e.Costs, costmodel.Crowding{
		Cores: p.Cores, Pinned: o.Devices.Pinned(), Alone: p.Alone, Together: p.Together,
	})
	r.simulation, err = psim.Simulate(&e)
	r.Predicted = r.simulation.Trace
	return err
}

// job returns the job to train.
func (r *Trial) job(o Options) train.Job {
	w := r.Experiment.Staged
	j := train.Job{
		Graph: r.Experiment.Graph, Staged: w,
		Optimizer: kernels.DefaultOptimizer(w.Training.Optimizer), Seed: o.Seed,
	}
	switch {
	case o.LearningRate > 0:
		j.Optimizer.LearningRate = o.LearningRate
	case strings.HasPrefix(w.Training.Optimizer, "adam"):
		j.Optimizer.LearningRate = 1e-4
	}
	if w.Training.Recompute == "full" {
		j.Recompute = kernels.RepeatLayer
	}
	return j
}

// Notes lists, before a run of some configurations begins, what it reads, assumes and decides,
// for the first of them and the options. A configuration that cannot be built has only its
// inputs.
func Notes(list []*configs.Config, o Options) []string {
	c := list[0]
	experiment, err := c.Build()
	if err != nil {
		return c.Inputs()
	}
	lines := append(c.Inputs(), c.Decisions(experiment)...)
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if source := cmp.Or(o.Measure.Data.Source, "synthetic"); source == "synthetic" {
		made := "the same batch in every step"
		if n := experiment.DataSet; n > 0 {
			made = units.FormatCount(n) + " of them"
		}
		say("assumes  made-up samples, %s", made)
	} else {
		say("reads    samples of %s", source)
	}
	if len(list) > 1 {
		say("decides  schedules %s, one after another", strings.Join(Modes(), ", "))
	}
	job := (&Trial{Config: c, Experiment: experiment}).job(o)
	engine := "backend " + cmp.Or(o.Measure.Devices.Backend, "go")
	if o.Python != "" {
		engine = "PyTorch of " + o.Python
	}
	say("decides  %s, %s of %s of this machine", engine,
		units.Plural(experiment.Graph.Ranks(), "device"), units.Plural(runtime.NumCPU(), "core"))
	unit, measured := "step", o.Measure.Train.Steps
	if o.Measure.Train.Epochs > 0 {
		unit, measured = "epoch", o.Measure.Train.Epochs
	}
	say("decides  every task measured alone %s, then %s to warm up and %d to measure",
		units.Plural(o.Measure.Repeats, "time"), units.Plural(o.Measure.Train.Warmup, unit), measured)
	say("decides  seed %d, learning rate %g", o.Seed, job.Optimizer.LearningRate)
	return lines
}
