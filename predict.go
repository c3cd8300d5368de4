package psim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"psim/configs"
	"psim/costmodel"
	ledger "psim/costmodel/memory"
	"psim/internal/interrupt"
	"psim/internal/ram"
	"psim/results"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// A Simulation is an experiment that has been run by the simulator.
type Simulation struct {
	Experiment *configs.Experiment
	Trace      *graph.Trace
	Summary    graph.Summary
	statistics *graph.Statistics
}

// Simulate runs an experiment. The error of an order that cannot come to its end is a
// *sim.DeadlockError.
func Simulate(experiment *configs.Experiment) (Simulation, error) {
	s := Simulation{Experiment: experiment, statistics: &graph.Statistics{Peaks: true}}
	var err error
	if s.Trace, err = sim.Run(experiment.Graph, experiment.Costs); err != nil {
		return Simulation{Experiment: experiment}, err
	}
	if experiment.Staged != nil {
		ledger.Reserve(experiment.Staged, s.Trace)
	}
	s.statistics.Summarize(s.Trace, &s.Summary)
	return s, nil
}

// Result puts a simulation in the form of result.json.
func (s Simulation) Result(info results.Info) results.Result {
	info.Memory = s.memory
	r := results.NewResult(results.Predicted, s.Trace, s.Summary, info)
	r.CriticalPath = results.NewCriticalPath(s.Trace, sim.CriticalPath(s.Trace))
	return r
}

// memory divides the peak of every rank by what it holds.
func (s Simulation) memory(*graph.Trace, graph.Summary) []results.MemoryBytes {
	switch {
	case s.Experiment.Staged != nil:
		return memoryBytes(ledger.NewLedger(s.Experiment.Staged, s.Trace.Graph).AtPeak(s.statistics))
	case s.Trace.MemoryChanges() == 0:
		return nil
	}
	return activations(s.Summary)
}

// A Prediction is a configuration that has been built and simulated.
type Prediction struct {
	Simulation
	Config *configs.Config
	// Result is the prediction in the form of result.json: times, bubble, memory,
	// communication, and warnings.
	Result results.Result
	brief  bool // whether the trace is needed only for statistics
	traced bool // whether a brief prediction keeps its trace, to be explained
	// products is the share of the step that products and attention take, in the mean over ranks.
	products float64
	// BuildTime and SimulationTime are how long psim itself took.
	BuildTime, SimulationTime time.Duration
}

// Predict builds and simulates a configuration. That a rank's memory does not
// suffice is not an error but a warning of the result; Advise says what would help.
func Predict(ctx context.Context, c *configs.Config) (*Prediction, error) {
	return predict(ctx, &Prediction{Config: c})
}

// Estimate is Predict without the trace, which is nil: the same result, in less time and memory,
// as tasks need no names, and one replica stands for all if they do the same at the same time.
func Estimate(ctx context.Context, c *configs.Config) (*Prediction, error) {
	return predict(ctx, &Prediction{Config: c, brief: true})
}

// dropTrace frees the memory of a trace.
func (p *Prediction) dropTrace() { p.Trace, p.statistics = nil, nil }

// EstimateExplained is Estimate with what the step's time is made of, as Prediction.Explain says of
// the trace.
func EstimateExplained(ctx context.Context, c *configs.Config) (*Prediction, *results.Explanation, error) {
	p, err := predict(ctx, &Prediction{Config: c, brief: true, traced: true})
	if err != nil {
		return nil, nil, err
	}
	e, err := p.Explain()
	p.dropTrace()
	return p, e, err
}

func predict(ctx context.Context, p *Prediction) (*Prediction, error) {
	if err := p.build(ctx, nil); err != nil {
		return nil, err
	}
	if err := p.Simulate(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Prepare is the first half of Estimate: it builds the graph and its costs, and leaves the
// simulation to Prediction.Simulate.
func Prepare(ctx context.Context, c *configs.Config) (*Prediction, error) {
	p := &Prediction{Config: c, brief: true}
	return p, p.build(ctx, nil)
}

// Simulate is the second half of Estimate.
func (p *Prediction) Simulate(ctx context.Context) error {
	if err := p.simulate(ctx); err != nil {
		return err
	}
	return p.reserveForMessages(ctx)
}

// Devices counts the devices that the prediction is for.
func (p *Prediction) Devices() int {
	return p.Experiment.Graph.Ranks() * p.Experiment.Machine.Devices()
}

// Run returns the prediction as reports take it.
func (p *Prediction) Run() results.Run { return results.Run{Result: p.Result, Trace: p.Trace} }

// build makes the plan; reserve is the memory of every rank that a schedule that is
// searched for leaves free.
func (p *Prediction) build(ctx context.Context, reserve []int64) (err error) {
	// Building counts exactly. F and B of every stage are certain, and replicas may be alike.
	least, check := p.Config.Tasks()/2/float64(max(1, p.Config.Parallel.Data)), ram.CheckTasks
	if p.brief {
		check = ram.CheckBrief
	}
	if err = check(least); err != nil {
		return fmt.Errorf("%s: %w", p.Config.Name(), err)
	}
	start := time.Now()
	build := func() (*configs.Experiment, error) {
		return p.Config.BuildFor(ctx, configs.BuildOptions{Reserve: reserve, Folded: true, Brief: p.brief})
	}
	if configs.IsSearched(p.Config.Schedule.Name) { // a search has a solver to end
		p.Experiment, err = build()
	} else {
		p.Experiment, err = interrupt.Await(ctx, build)
	}
	p.BuildTime += time.Since(start)
	if err == nil {
		err = ctx.Err()
	}
	return err
}

func (p *Prediction) simulate(ctx context.Context) error {
	done, err := interrupt.Await(ctx, func() (Prediction, error) {
		simulated := *p
		err := simulated.simulateWhole()
		return simulated, err
	})
	if err == nil {
		*p = done
		err = ctx.Err()
	}
	return err
}

func (p *Prediction) simulateWhole() (err error) {
	start := time.Now()
	if p.Simulation, err = Simulate(p.Experiment); err != nil {
		return p.explain(err)
	}
	p.SimulationTime += time.Since(start)
	info := Info(p.Config, p.Experiment)
	info.LastStep = lastStep(p.Config, p.Experiment)
	p.Result = p.Simulation.Result(info)
	p.Result.Search = p.found()
	if p.products, err = p.productsOf(p.Trace); err != nil {
		return err
	}
	p.setInterval()
	if name := p.Config.Published(); name != "" && !p.Result.FitsMemory {
		p.Result.Warnings = append(p.Result.Warnings, fmt.Sprintf("the training of %s ran with these settings, so it "+
			"did fit: the estimate of its memory is too high by at least what is lacking; what is not modelled "+
			"stands in psim show %s", name, name))
	}
	if p.brief && !p.traced {
		p.dropTrace()
	}
	return nil
}

// explain simulates every task of what cannot be run, for an error that names those of all replicas.
func (p *Prediction) explain(blocked error) error {
	experiment, err := p.Config.Build()
	if err == nil {
		_, err = Simulate(experiment)
	}
	return cmp.Or(err, blocked)
}

// reserveForMessages searches again where the order that was found does not fit,
// because messages wait in memory, which the search does not count.
func (p *Prediction) reserveForMessages(ctx context.Context) error {
	const rounds = 6
	if p.Experiment.Search == nil || p.Result.Fits() {
		return nil
	}
	first := *p
	reserve := make([]int64, p.Experiment.Graph.Shape.Ranks)
	for range rounds {
		for r, over := range p.lacks() {
			if over > 0 { // below what the rank takes now, however much it may have alone
				slack := p.Experiment.Machine.RankMemory() - p.Result.Ranks[r].PeakMemory
				reserve[r%len(reserve)] = max(reserve[r%len(reserve)], slack) + over
			}
		}
		if err := p.build(ctx, reserve); err != nil {
			return err
		}
		if err := p.simulate(ctx); err != nil {
			return err
		}
		if p.Result.Fits() {
			return nil
		}
	}
	*p = first
	return nil
}

// lacks returns the bytes that every rank has too little: of its own, or as its share of
// what its node lacks.
func (p *Prediction) lacks() []int64 {
	list := make([]int64, len(p.Result.Ranks))
	for r, rank := range p.Result.Ranks {
		if rank.MemoryCapacity > 0 {
			list[r] = max(0, rank.PeakMemory-rank.MemoryCapacity)
		}
		if len(p.Result.Nodes) > 0 {
			node := p.Result.Nodes[p.Experiment.Machine.Node(int32(r))]
			list[r] = max(list[r], (node.PeakMemory-node.MemoryCapacity+int64(node.Devices)-1)/int64(node.Devices))
		}
	}
	return list
}

// found says how good the order is, where one was searched for. The span is that of
// the simulation, in which messages may queue.
func (p *Prediction) found() *results.FoundOrder {
	if p.Experiment.Search == nil {
		return nil
	}
	s := &results.FoundOrder{
		LowerBound: p.Experiment.Search.LowerBound.Seconds(), Span: p.Summary.LongestSpan.Seconds(),
	}
	if s.LowerBound > 0 {
		s.Gap = max(0, s.Span/s.LowerBound-1)
	}
	s.Order = strings.Split(strings.TrimSuffix(p.Experiment.Search.Order.String(), "\n"), "\n")
	return s
}

// Unit is the time that counts as one where only order matters; any would do.
const Unit = time.Second

// UnitTrace runs the order of a schedule without costs: F, I and W take one unit of
// time, B two, messages none. What is not a pipeline has four copies, and sums
// gradients in two halves that take one each.
func UnitTrace(s schedules.Schedule, shape graph.Shape) (*graph.Trace, error) {
	pipeline, err := s.Pipeline(shape, nil)
	if err != nil {
		return nil, err
	}
	if !s.Pipelined {
		pipeline.Shape.Replicas = 4
		pipeline.Sync = wiring.Sync{Buckets: [][]int64{{1, 1}}, Overlap: true}
	}
	g, err := pipeline.Graph()
	if err != nil {
		return nil, err
	}
	one := costmodel.Uniform(Unit)
	times := costmodel.Times{Forward: one, InputGradient: one, WeightGradient: one}
	costs := times.Costs(costmodel.MemoryOptions{}, g.Placement)
	task := costs.Task
	costs.ByMicrobatch, costs.Task = true, func(t *graph.Task) graph.Cost {
		slice := !s.Pipelined && t.Kind == graph.Backward && int(t.Microbatch) == shape.Microbatches-1
		if t.Kind.Collective() || slice {
			return graph.Cost{Busy: Unit}
		}
		return task(t)
	}
	return sim.Run(g, costs)
}

// Explain says what the step's time is made of, over all ranks and along the critical
// path, and which settings price that. WhatIf adds what changes would give.
func (p *Prediction) Explain() (*results.Explanation, error) {
	made := p.Config.Times.MadeOf
	if p.Experiment.Staged != nil {
		var err error
		made, err = costmodel.MadeOf(p.Experiment.Machine, p.Experiment.Staged, p.Experiment.Graph.Ranks())
		if err != nil {
			return nil, err
		}
	}
	e := results.NewExplanation(p.Trace, sim.CriticalPath(p.Trace), made)
	e.Settings, e.WhatIf = []results.Pricing{}, []results.WhatIf{}
	for _, s := range p.Config.Pricing(p.Experiment) {
		if classes := present(e, s.Classes); classes != nil {
			e.Settings = append(e.Settings, results.Pricing{Key: s.Key, Value: s.Value, From: s.From, Classes: classes})
		}
	}
	return e, nil
}

// Boundaries lists what passes between neighbouring stages: shapes, and the bytes of
// the graph's messages. A configuration without [model] knows no shapes.
func (p *Prediction) Boundaries() ([]results.StageBoundary, error) {
	if p.Experiment.Staged == nil {
		return nil, fmt.Errorf("%s has no [model], whose stages would have boundaries", p.Config.Name())
	}
	list := []results.StageBoundary{}
	for _, c := range p.Experiment.Staged.Crossings() {
		b := results.StageBoundary{
			From: c.From, To: c.To, Shape: c.Shape, Bytes: c.Bytes, Direction: results.ForwardDirection,
			FromRank: int(c.FromRank), ToRank: int(c.ToRank), Microbatches: len(c.Microbatches),
		}
		if c.Backward() {
			b.Direction = results.BackwardDirection
		}
		if c.Parts > 1 {
			b.Parts = c.Parts
		}
		list = append(list, b)
	}
	return list, nil
}

// present lists the classes of an explanation that some names stand for.
func present(e *results.Explanation, names []string) (classes []string) {
	for _, class := range e.Classes() {
		if slices.ContainsFunc(names, func(n string) bool {
			return n == class || strings.HasSuffix(n, "_") && strings.HasPrefix(class, n)
		}) {
			classes = append(classes, class)
		}
	}
	return classes
}
