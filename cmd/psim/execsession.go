package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"psim/configs"
	"psim/costmodel"
	"psim/exec"
	"psim/exec/programs"
	"psim/internal/memory"
	"psim/internal/units"
	"psim/reports"
	"psim/schedules/graph"
	"psim/sim"
)

// session is one call of psim exec: one or several modes, one after another.
type session struct {
	flags    execFlags
	progress *progress
	done     []*executed
	unsplit  map[string]*exec.Record // by what decides the unsplit run
}

// executed is one mode that has been run.
type executed struct {
	config    *configs.Config
	plan      *configs.Plan
	predicted *graph.Trace
	training  *exec.Training
	trace     *graph.Trace // of the median step
	checks    *reports.Checks
	failures  []string       // what of the checks failed
	result    reports.Result // measured, with the prediction in it
	partial   bool
	heap      int64 // bytes in use before the devices were opened
}

// run runs all modes. What was measured until an error is kept.
func (s *session) run(ctx context.Context, list []*configs.Config) error {
	for _, c := range list {
		e := &executed{config: c}
		err := s.execute(ctx, e)
		if e.training != nil && len(e.training.Traces) > 0 {
			e.partial = err != nil
			e.summarize(s.flags)
			s.done = append(s.done, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) close() { s.progress.clear() }

// execute profiles, predicts, runs and checks one mode.
func (s *session) execute(ctx context.Context, e *executed) error {
	if err := memory.CheckTasks(e.config.Tasks()); err != nil {
		return fmt.Errorf("%s: %w", e.config.Name(), err)
	}
	var err error
	if e.plan, err = e.config.Build(); err != nil {
		return err
	}
	if s.flags.perLayer {
		w := e.plan.Workload.Workload
		w.PerLayer = true
		e.plan.Workload = w.Plan()
		if e.plan.Costs, err = costmodel.StepCosts(e.plan.Machine, e.plan.Workload, e.plan.Graph); err != nil {
			return err
		}
	}
	e.heap = exec.Heap()
	if err := e.checkMemory(); err != nil && s.flags.backend == "go" {
		return fmt.Errorf("%s: %w", e.config.Name(), err)
	}
	s.progress.say("%s: opening %s", e.plan.Graph.Name, units.Plural(e.plan.Graph.Ranks(), "device"))
	devices, err := exec.OpenDevices(e.plan.Graph.Ranks(), s.flags.devices())
	if err != nil {
		return err
	}
	defer exec.CloseDevices(devices)
	options := s.training()
	source, err := exec.NewSource(exec.DataOptions{Source: s.flags.data, Strided: s.flags.strided},
		e.plan.Workload.Network, e.samplesPerReplica(), e.plan.Graph.Shape.Replicas, options.Total())
	if err != nil {
		return fmt.Errorf("--data %s: %w", s.flags.data, err)
	}
	if err := s.measure(ctx, e, devices, source, options); err != nil {
		return err
	}
	return s.check(ctx, e, devices[:1], source, options)
}

// training is how long to train, and what to keep of it.
func (s *session) training() exec.TrainOptions {
	return exec.TrainOptions{
		RunOptions: exec.RunOptions{Stall: s.flags.stall},
		Warmup:     s.flags.warmup, Steps: s.flags.steps, Record: len(s.flags.check) > 0,
	}
}

// measure profiles the tasks, predicts the step from that, and then runs it.
func (s *session) measure(ctx context.Context, e *executed, devices []*programs.Device, source *exec.Source, o exec.TrainOptions) error {
	name := e.plan.Graph.Name
	s.progress.say("%s: compiling", name)
	trainer, err := exec.NewTrainer(e.job(s.flags), devices)
	if err != nil {
		return fmt.Errorf("%s: %w", e.config.Name(), err)
	}
	defer trainer.Close()
	s.progress.say("%s: profiling every task alone", name)
	profile, err := trainer.Profile(ctx, source.Batch(0), s.flags.repeats)
	if err != nil {
		return failed(err)
	}
	costs, err := costmodel.Profiled(e.plan.Costs, e.plan.Workload.Samples, profile)
	if err != nil {
		return err
	}
	if e.predicted, err = sim.Run(e.plan.Graph, costs); err != nil {
		return failure{err}
	}
	o.Progress = func(step, of int) { s.progress.say("%s: step %d of %d", name, step+1, of) }
	e.training, err = trainer.Train(ctx, source, o)
	return failed(err)
}

// samplesPerReplica is the size of a replica's share of the batch.
func (e *executed) samplesPerReplica() int {
	n := 0
	for _, m := range e.plan.Workload.Samples {
		n += int(m)
	}
	return n
}

// job is what the trainer trains.
func (e *executed) job(f execFlags) exec.Job {
	w := e.plan.Workload
	j := exec.Job{
		Graph: e.plan.Graph, Network: w.Network, Layers: w.Layers,
		Optimizer: programs.DefaultOptimizer(w.Training.Optimizer), Seed: f.seed, PerLayer: f.perLayer,
	}
	j.Optimizer.LearningRate = f.rate(w.Training.Optimizer)
	for _, n := range w.Samples {
		j.Samples = append(j.Samples, int(n))
	}
	if w.Training.Recompute == "full" {
		j.Recompute = programs.RepeatLayer
	}
	return j
}

// restless is the deviation of steps from their mean that a quiet machine stays
// below.
const restless = 0.08

// rate is the learning rate: unless it is given, that of the courses.
func (f execFlags) rate(optimizer string) float64 {
	switch {
	case f.learningRate > 0:
		return f.learningRate
	case strings.HasPrefix(optimizer, "adam"):
		return 1e-4
	}
	return 1e-3
}

// medianStep is the trace whose step took the median time.
func medianStep(traces []*graph.Trace) *graph.Trace {
	sorted := slices.Clone(traces)
	slices.SortStableFunc(sorted, func(a, b *graph.Trace) int { return int(a.End() - b.End()) })
	return sorted[(len(sorted)-1)/2]
}

// summarize makes the result.
func (e *executed) summarize(f execFlags) {
	e.trace = medianStep(e.training.Traces)
	var steps []time.Duration
	for _, t := range e.training.Traces {
		steps = append(steps, t.End())
	}
	info := e.info()
	predicted := reports.NewResult(reports.Predicted, e.predicted, graph.Summarize(e.predicted), info)
	predicted.CriticalPath = reports.NewCriticalPath(e.predicted, sim.CriticalPath(e.predicted))
	e.result = reports.NewResult(reports.Measured, e.trace, graph.Summarize(e.trace), info)
	e.result.Predicted = &predicted
	m := reports.NewMeasurement(steps...)
	m.Backend, m.Devices = f.backend, e.plan.Graph.Ranks()
	m.TimesComparable = exec.Comparable(m.Devices, f.devices())
	m.HeapGrowth = max(0, e.training.Heap-e.heap)
	m.Checks, m.Partial = e.checks, e.partial
	if f.courseRates {
		m.CourseTokens, m.CourseSamples = e.courseRates()
	}
	e.result.Measurement = m
	if warning := diverged(e.training.Record.Losses); warning != "" {
		e.result.Warnings = append(e.result.Warnings, warning)
	}
	if f.perLayer {
		e.result.Warnings = append(e.result.Warnings, "backwards run layer by layer (--per-layer)")
	}
	if unrest := m.StepTimeStd / m.StepTimeMean; unrest > restless {
		e.result.Warnings = append(e.result.Warnings, fmt.Sprintf("the steps deviate by %.0f %% from each other: something else was running, and predictions suffer", 100*unrest))
	}
}

// diverged is a warning about the first loss that is no finite number, or
// nothing. The losses are those of all steps, the warm-up's included.
func diverged(losses []float64) string {
	for i, loss := range losses {
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return fmt.Sprintf("the loss of step %d of %d is %g: the training diverged; a smaller --learning-rate may help", i+1, len(losses), loss)
		}
	}
	return ""
}

// info is what a result says that its trace does not.
func (e *executed) info() reports.Info {
	shape := e.plan.Graph.Shape
	return reports.Info{
		Name: e.config.Name(), Schedule: e.plan.Graph.Name, Stages: shape.Ranks, VirtualStages: shape.Virtual,
		Microbatches: shape.Microbatches, DataParallel: max(1, shape.Replicas), TensorParallel: 1,
		Samples: e.plan.Samples, Tokens: e.plan.Tokens, Warnings: slices.Clone(e.plan.Warnings),
	}
}

// courseRates are the samples and tokens of a step over the time until a rank
// has begun its last forward or backward, averaged over ranks and steps.
func (e *executed) courseRates() (tokens, samples *float64) {
	var sum float64
	n := 0
	for _, t := range e.training.Traces {
		for _, at := range exec.Launched(t) {
			if at > 0 {
				sum += 1 / at.Seconds()
				n++
			}
		}
	}
	if n == 0 {
		return nil, nil
	}
	rate := func(perStep int64) *float64 {
		r := float64(perStep) * sum / float64(n)
		return &r
	}
	if e.plan.Tokens > 0 {
		tokens = rate(e.plan.Tokens)
	}
	return tokens, rate(e.plan.Samples)
}
