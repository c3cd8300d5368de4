// Package session predicts configurations and runs them, and holds the two beside
// each other: it measures every task alone, predicts the step from these times,
// runs the same graph, and compares.
package session

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"psim"
	"psim/configs"
	"psim/costmodel"
	"psim/exec"
	"psim/exec/programs"
	"psim/internal/ram"
	"psim/internal/units"
	"psim/results"
	"psim/schedules/graph"
)

// Options say how configurations are run. Steps, or Epochs, and Repeats must be at
// least 1: without tasks that were measured alone there is nothing to predict from.
type Options struct {
	exec.MeasureOptions
	// Seed is that of the first weights, and of dropout.
	Seed uint64
	// LearningRate is the optimizer's; 0 is 1e-4 with adam and adamw, and 1e-3
	// with others.
	LearningRate float64
	// Tries is how often a configuration is run at most while the machine is
	// disturbed; less than 2 is once.
	Tries int
	// Warn, which may be nil, is told of doubts before a run.
	Warn func(what string)
	// UnwaitedRates also reports the rates by a clock that does not wait for
	// devices.
	UnwaitedRates bool
	// Shards also reports which samples every replica trains on.
	Shards bool
}

// A Session runs configurations one after another. Those that have the same
// unsplit run train it once.
type Session struct {
	Options
	// Runs lists what was run, the main one last.
	Runs []*Run

	early bool // an error has ended it before all was run
}

// A Run is a configuration that was predicted and then run.
type Run struct {
	Config *configs.Config
	Plan   *configs.Experiment
	// Predicted and Measured are the traces of a step; of the measured ones, that
	// of the median time.
	Predicted, Measured *graph.Trace
	// Result is the measured one, with the prediction in it.
	Result results.Result
	// Verdict says whether the checks passed; nil if nothing was checked.
	Verdict *exec.Verdict

	simulation psim.Simulation  // of the predicted trace
	gradients  []exec.Gradients // by rank, where they were asked for
	here       []int            // the ranks that run on this machine; nil for all
}

// Modes names the schedules that a network is run with to compare them, the main
// one last.
func Modes() []string { return []string{"model-parallel", "gpipe", "1f1b"} }

// Load reads a configuration and fits it to a number of devices, 0 for as many as
// it asks for. It says what had to be changed for that.
func Load(pathOrName string, devices int, sets ...string) (*configs.Config, []string, error) {
	c, err := psim.Load(pathOrName, sets...)
	if err != nil {
		return nil, nil, err
	}
	return c.Executable(devices)
}

// Run predicts and runs configurations. It keeps what was measured until an error. Of
// several processes, which all call it, the first keeps it, and the others nothing.
func (s *Session) Run(ctx context.Context, list ...*configs.Config) error {
	switch {
	case s.Repeats < 1:
		return fmt.Errorf("%d repeats: every task has to be measured alone at least once, for the prediction", s.Repeats)
	case s.Steps < 1 && s.Epochs < 1:
		return fmt.Errorf("%d steps: at least 1 has to be measured", s.Steps)
	case s.References == nil:
		s.References = exec.References{}
	}
	if err := s.agree(ctx, list); err != nil {
		return err
	}
	for _, c := range list {
		r, err := s.run(ctx, c)
		if r != nil {
			s.Runs = append(s.Runs, r)
		}
		if err != nil {
			s.early = true
			if s.World != nil {
				s.World.Abort(err)
			}
			return err
		}
	}
	return nil
}

// Check refuses configurations that this machine cannot run with all devices on it: without
// a plan, or with more than its cores and its free memory hold.
func (o Options) Check(list ...*configs.Config) error {
	o.Warn = nil // Run warns
	for _, c := range list {
		r := &Run{Config: c}
		if err := r.build(o); err != nil {
			return err
		}
		if err := o.Devices.Check(r.Plan.Graph.Ranks()); err != nil {
			return err
		}
	}
	return nil
}

// run returns nil where nothing was measured.
func (s *Session) run(ctx context.Context, c *configs.Config) (*Run, error) {
	if s.World != nil {
		return s.runTogether(ctx, c)
	}
	return leastDisturbed(s.Tries, func() (*Run, error) { return s.once(ctx, c) })
}

func (s *Session) once(ctx context.Context, c *configs.Config) (*Run, error) {
	r := &Run{Config: c}
	if err := r.build(s.Options); err != nil {
		return nil, err
	}
	o := s.MeasureOptions
	o.Data.Samples = int(c.Data.Samples)
	o.Profiled = func(p exec.Profile) error { return r.predict(o, p) }
	o.Probe = true
	if s.Stage != nil {
		o.Stage = func(what string) { s.Stage(r.Plan.Graph.Name + ": " + what) }
	}
	m, err := exec.Measure(ctx, r.job(s.Options), o)
	if m == nil {
		return nil, err
	}
	r.summarize(m, s.Options)
	r.Result.Partial = err != nil
	return r, err
}

// build makes the plan, and refuses what does not fit into this machine's memory.
func (r *Run) build(o Options) error {
	err := r.plan()
	if err == nil && !strings.HasPrefix(o.Devices.Backend, "xla") { // its devices have memory of their own
		r.here = here(r.Plan.Graph.Ranks(), o.World)
		err = r.checkMemory(o, ram.Here())
	}
	return err
}

// plan makes the plan.
func (r *Run) plan() (err error) {
	if err := ram.CheckTasks(r.Config.Tasks()); err != nil {
		return fmt.Errorf("%s: %w", r.Config.Name(), err)
	}
	r.Plan, err = r.Config.Build()
	return err
}

// checkMemory refuses a run whose tensors alone would not fit into what is free of
// this machine's memory or its container's, which all devices of the Go backend share.
func (r *Run) checkMemory(o Options, here ram.Room) error {
	need, err := r.need()
	if err == nil && need > float64(here.Free) {
		of := "this machine's memory"
		if here.Container > 0 {
			of = "the container's " + units.FormatBytes(here.Container)
		}
		err = fmt.Errorf("the tensors of all devices need %s at least, and %s of %s are free; %s",
			units.FormatBytes(int64(min(need, 1e18))), units.FormatBytes(here.Free), of, cmp.Or(r.advice(here.Free), "train a smaller network"))
	}
	if err == nil && here.Container > 0 && need > roomyShare*float64(here.Free) && o.Warn != nil {
		o.Warn(fmt.Sprintf("%s: the tensors of all devices need %s, and %s of the container's %s are free; programs may need as much again, and the system ends what needs more than there is: %s",
			r.Config.Name(), units.FormatBytes(int64(need)), units.FormatBytes(here.Free), units.FormatBytes(here.Container), cmp.Or(r.advice(here.Free), "train a smaller network")))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", r.Config.Name(), err)
	}
	return err
}

// predict simulates the step with the times of tasks that were measured alone, and what
// they take from each other on the cores of the devices.
func (r *Run) predict(o exec.MeasureOptions, p exec.Profile) (err error) {
	plan := *r.Plan
	if plan.Costs, err = costmodel.Profiled(plan.Costs, plan.Staged, p.Alone, apart(plan.Graph, o.World)); err != nil {
		return err
	}
	plan.Costs = costmodel.Crowded(plan.Costs, p.Cores, o.Devices.Pinned(), p.Alone, p.Together)
	r.simulation, err = psim.Simulate(&plan)
	r.Predicted = r.simulation.Trace
	return err
}

func (r *Run) job(o Options) exec.Job {
	w := r.Plan.Staged
	j := exec.Job{
		Graph: r.Plan.Graph, Staged: w,
		Optimizer: programs.DefaultOptimizer(w.Training.Optimizer), Seed: o.Seed,
	}
	switch {
	case o.LearningRate > 0:
		j.Optimizer.LearningRate = o.LearningRate
	case strings.HasPrefix(w.Training.Optimizer, "adam"):
		j.Optimizer.LearningRate = 1e-4
	}
	if w.Training.Recompute == "full" {
		j.Recompute = programs.RepeatLayer
	}
	return j
}
