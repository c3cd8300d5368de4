package session

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"psim"
	"psim/configs"
	"psim/costmodel"
	"psim/exec/data"
	"psim/exec/kernels"
	"psim/exec/measure"
	"psim/exec/pytorch"
	"psim/exec/train"
	"psim/export"
	"psim/schedules/graph"
)

// runInPyTorch trains a configuration in PyTorch, predicts its step by the times of tasks that PyTorch
// has measured alone, and, if checks are asked for, compares PyTorch's numbers with psim's own.
func (s *Session) runInPyTorch(ctx context.Context, c *configs.Config) (*Trial, error) {
	r := &Trial{Config: c}
	if err := r.build(); err != nil {
		return nil, err
	}
	stage := func(what string) {
		if s.Measure.Stage != nil {
			s.Measure.Stage(r.Experiment.Graph.Name + ": " + what)
		}
	}
	var program bytes.Buffer
	if _, err := export.WriteTorch(&program, c); err != nil {
		return nil, err
	}
	stage("training in PyTorch, and timing tasks between the steps")
	o := pytorch.Options{
		Python: s.Python, Program: program.Bytes(),
		Steps: s.Measure.Train.Steps, Warmup: s.Measure.Train.Warmup, Rounds: s.Measure.Repeats,
		Progress: func(line string) { stage("training in PyTorch, and timing tasks: " + line) },
	}
	run, err := pytorch.Execute(ctx, o)
	if err != nil {
		return nil, err
	}
	cores := 0
	if run.Result.Engine.Device == "cpu" {
		cores = runtime.NumCPU()
	}
	if err := r.predictFrom(run.Alone, cores); err != nil {
		return nil, err
	}
	predicted := r.simulation.Result(psim.Info(c, r.Experiment))
	r.Result, r.Measured = run.Result, run.Trace
	r.Result.Predicted = &predicted
	r.Fastest.Measured = slices.Min(r.Result.Steps)
	if len(s.Measure.Checks) == 0 {
		return r, nil
	}
	stage("checking: some steps in PyTorch and in psim, from the same weights")
	return r, s.checkPyTorch(ctx, r, o)
}

// predictFrom simulates the step with the times of tasks, once with those of every round, and keeps the
// middle one of these predictions: the machine changes its speed from round to round.
func (r *Trial) predictFrom(times []pytorch.TaskTime, cores int) error {
	rounds := map[int][]pytorch.TaskTime{}
	for _, t := range times {
		rounds[t.Round] = append(rounds[t.Round], t)
	}
	r.Slower = slowdowns(times)
	shared := func(slower map[string]float64) *graph.Cores {
		if cores == 0 { // on GPUs, which nothing shares
			return nil
		}
		return &graph.Cores{
			Number: cores, Pinned: r.Experiment.Graph.Ranks() <= cores,
			Slower: func(t *graph.Task) float64 { return max(1, slower[t.Kind.String()]) },
		}
	}
	var simulations []psim.Simulation
	for _, n := range slices.Sorted(maps.Keys(rounds)) {
		s, err := r.simulateRound(rounds[n], shared(r.Slower))
		if err != nil {
			return err
		}
		simulations = append(simulations, s)
	}
	slices.SortFunc(simulations, func(a, b psim.Simulation) int {
		return cmp.Compare(graph.Summarize(a.Trace).StepTime, graph.Summarize(b.Trace).StepTime)
	})
	r.simulation = simulations[(len(simulations)-1)/2]
	r.Predicted = r.simulation.Trace
	return r.predictFastest(times, shared)
}

// simulateRound simulates the step with times of one round, for processes on shared cores.
func (r *Trial) simulateRound(times []pytorch.TaskTime, shared *graph.Cores) (s psim.Simulation, err error) {
	e := *r.Experiment
	alone := &graph.Trace{Graph: e.Graph, Spans: make([]graph.Span, e.Graph.Len())}
	spread := spreadTimes(e.Graph, e.Costs, times)
	for i, t := range e.Graph.Tasks() {
		alone.Spans[i].End = spread(&t)
	}
	if e.Costs, err = costmodel.Profiled(e.Costs, e.Staged, []*graph.Trace{alone}, nil); err != nil {
		return s, err
	}
	e.Costs.Cores = shared
	return psim.Simulate(&e)
}

// slowdowns returns by kind of task how many times as long it takes while other processes compute, in the
// middle of all rounds.
func slowdowns(times []pytorch.TaskTime) map[string]float64 {
	ratios, slower := map[string][]float64{}, map[string]float64{}
	for _, t := range times {
		if t.Time > 0 {
			ratios[t.Kind] = append(ratios[t.Kind], float64(t.Beside)/float64(t.Time))
		}
	}
	for kind, list := range ratios {
		slices.Sort(list)
		slower[kind] = list[(len(list)-1)/2]
	}
	return slower
}

// A measuredPart says what a time was measured for: passes of a stage (or of all), the optimizer of a
// rank, a message, or a collective of a size.
type measuredPart struct {
	kind  string
	where int32 // stage or rank
	bytes int64
}

// partOf returns what the time of a task belongs to.
func partOf(g *graph.Graph, t *graph.Task) measuredPart {
	p := measuredPart{kind: t.Kind.String(), where: t.Stage}
	switch {
	case t.Kind.Collective():
		p.where, p.bytes = 0, t.Bytes
	case t.Kind == graph.Optimizer:
		p.where = t.Rank % int32(g.Shape.Ranks)
	case t.Kind.Pass() && g.Shape.Ranks == 1: // one process runs all layers
		p.where = 0
	}
	return p
}

// spreadTimes returns the time of a task. What was measured as a whole, such as a pass of all layers, is
// divided among its tasks as their modelled times are; what was not measured takes no time.
func spreadTimes(g *graph.Graph, costs graph.Costs, times []pytorch.TaskTime) func(*graph.Task) time.Duration {
	measured := map[measuredPart]time.Duration{}
	for _, t := range times {
		p := measuredPart{t.Kind, t.Stage, t.Bytes}
		if t.Kind == graph.Optimizer.String() {
			p.where = t.Rank % int32(g.Shape.Ranks)
		}
		if strings.HasPrefix(t.Kind, "SEND") {
			p.bytes = 0
		}
		measured[p] = max(measured[p], t.Time) // replicas, and both ends of a message
	}
	modelled, first := map[measuredPart]float64{}, map[measuredPart]graph.Task{}
	for _, t := range g.Tasks() {
		p := partOf(g, &t)
		if _, known := first[p]; !known {
			first[p] = t
		}
		if one := first[p]; one.Rank == t.Rank && one.Microbatch == t.Microbatch {
			modelled[p] += float64(costs.Task(&t).Busy) + 1
		}
		if t.Kind.Collective() || t.Kind.Message() { // each was measured as a whole
			modelled[p] = float64(costs.Task(&t).Busy) + 1
		}
	}
	return func(t *graph.Task) time.Duration {
		p := partOf(g, t)
		share := (float64(costs.Task(t).Busy) + 1) / modelled[p]
		return time.Duration(math.Round(float64(measured[p]) * share))
	}
}

// Start returns what psim exec begins the training of a configuration with: weights and the first batch.
func Start(c *configs.Config) (*pytorch.Start, error) {
	c, _, err := c.Executable(0)
	if err != nil {
		return nil, err
	}
	e, err := c.Build()
	if err != nil {
		return nil, err
	}
	return pytorch.NewStart(e.Network, e.Staged.PerReplica(), export.FirstSeed, data.Options{})
}

// checkedSteps is how many steps PyTorch and psim both train at least.
const checkedSteps = 3

// checkPyTorch trains some steps by plain SGD in PyTorch and in psim, from the same weights on the same
// batch, and compares losses, the gradients of the first step, and the weights after the last.
func (s *Session) checkPyTorch(ctx context.Context, r *Trial, o pytorch.Options) error {
	job := r.job(s.Options)
	job.Optimizer = kernels.Optimizer{Name: "sgd", LearningRate: 1e-3}
	var err error
	o.Start, err = pytorch.NewStart(job.Network, job.PerReplica(), job.Seed, s.Measure.Data)
	if err != nil {
		return err
	}
	own := measure.Options{Devices: s.Measure.Devices, Data: s.Measure.Data, Checks: measure.CheckNames()}
	own.Devices.Oversubscribe = true
	own.Train.Run.Stall = s.Measure.Train.Run.Stall
	own.Train.Warmup, own.Train.Steps = 1, checkedSteps-1
	ours, err := measure.Job(ctx, job, own)
	if err != nil {
		return err
	}
	o.Warmup, o.Steps, o.Rounds, o.Record = 1, len(ours.Record.Losses)-1, 0, true
	theirs, err := pytorch.Execute(ctx, o)
	if err != nil {
		return err
	}
	names := slices.Clone(s.Measure.Checks)
	names = slices.DeleteFunc(names, func(name string) bool { return name == measure.CheckOutput })
	r.Verdict = compareRecords(ours.Record, theirs, names)
	compared := measure.Findings{Verdict: r.Verdict}
	compared.Record = &train.Record{Losses: theirs.Result.Losses}
	r.Result.Checks = checks(&compared, names)
	return nil
}

// Numbers in float32 that were summed in another order may be this far apart: gradients as a share of the
// largest of their tensor, and weights as they are, as in the checks of psim's own runs.
const closeEnough = 1e-5

// compareRecords compares PyTorch's numbers with psim's, as far as checks are named.
func compareRecords(ours *train.Record, theirs pytorch.Execution, names []string) *measure.Verdict {
	v := &measure.Verdict{Reference: "psim's own run of the same graph"}
	v.ReplicasEqual = true
	fail := func(check, format string, args ...any) {
		if slices.Contains(names, check) {
			v.Failures = append(v.Failures, fmt.Sprintf(format, args...))
		}
	}
	stages, compared := max(1, theirs.Result.Stages), map[string]bool{}
	for rank, record := range theirs.Records {
		replica := min(rank/stages, len(ours.Gradients)-1)
		for name, have := range record {
			kind, tensor, _ := strings.Cut(name, "/")
			check, want, worst, limit := measure.CheckWeights, ours.Parameters[replica][tensor], &v.Weights, closeEnough
			if kind == "gradient" {
				check, want, worst = measure.CheckGradients, ours.Gradients[replica][tensor], &v.Gradients
				limit = closeEnough * largest(want)
				v.ReplicasEqual = v.ReplicasEqual && slices.Equal(have, theirs.Records[rank%stages][name])
			}
			apart, same := farthest(want, have)
			*worst = max(*worst, apart)
			if !same || !(apart <= limit) {
				fail(check, "PyTorch's %s of %s is up to %.3g apart, where %.3g is allowed", kind, tensor, apart, limit)
			}
			compared[tensor] = true
		}
	}
	for name := range ours.Parameters[0] {
		if !compared[name] {
			fail(measure.CheckWeights, "PyTorch has no %s", name)
		}
	}
	if !v.ReplicasEqual {
		fail(measure.CheckGradients, "PyTorch's replicas have different gradients")
	}
	for i := range min(len(ours.Losses), len(theirs.Result.Losses)) {
		v.Loss = max(v.Loss, math.Abs(ours.Losses[i]-theirs.Result.Losses[i]))
	}
	if !(v.Loss <= closeEnough*cmp.Or(math.Abs(ours.Losses[0]), 1)) {
		fail(measure.CheckLoss, "losses: %.3g apart", v.Loss)
	}
	return v
}

func largest(list []float32) (largest float64) {
	for _, x := range list {
		largest = max(largest, math.Abs(float64(x)))
	}
	return largest
}

// farthest returns the largest difference of two lists, and whether they are equally long.
func farthest(a, b []float32) (apart float64, same bool) {
	if len(a) != len(b) {
		return math.Inf(1), false
	}
	for i := range a {
		apart = max(apart, math.Abs(float64(a[i])-float64(b[i])))
	}
	return apart, true
}
