package psim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"psim/configs"
	"psim/internal/interrupt"
	"psim/internal/memory"
	"psim/reports"
	"psim/schedules/graph"
	"psim/sim"
)

// A Simulation is a plan that has been run by the simulator.
type Simulation struct {
	Plan    *configs.Plan
	Trace   *graph.Trace
	Summary graph.Summary
}

// Simulate runs a plan. The error of an order that cannot come to its end is a
// *sim.DeadlockError.
func Simulate(plan *configs.Plan) (Simulation, error) {
	trace, err := sim.Run(plan.Graph, plan.Costs)
	if err != nil {
		return Simulation{Plan: plan}, err
	}
	return Simulation{plan, trace, graph.Summarize(trace)}, nil
}

// A Prediction is a configuration that has been built and simulated.
type Prediction struct {
	Simulation
	Config *configs.Config
	// Result is the prediction in the form of result.json: times, bubble, memory,
	// communication, and warnings.
	Result reports.Result
	// BuildTime and SimulationTime are how long psim itself took.
	BuildTime, SimulationTime time.Duration
}

// Load reads a configuration: a TOML file, or an embedded example by its bare name
// (configs.Examples lists them). sets are settings KEY=VALUE over it, with dotted
// keys, applied in order.
func Load(pathOrName string, sets ...string) (*configs.Config, error) {
	return configs.Load(pathOrName, sets...)
}

// Predict builds and simulates a configuration. That a rank's memory does not
// suffice is no error, but a warning of the result; Advise says what would help.
func Predict(ctx context.Context, c *configs.Config) (*Prediction, error) {
	p := &Prediction{Config: c}
	if err := p.build(ctx, nil); err != nil {
		return nil, err
	}
	if err := p.simulate(ctx); err != nil {
		return nil, err
	}
	if err := p.reserveForMessages(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Run returns the prediction as reports take it.
func (p *Prediction) Run() reports.Run { return reports.Run{Result: p.Result, Trace: p.Trace} }

// Compare says by how much run b differs from run a, and where the difference comes
// from. A run is a Prediction's, or a saved one that reports.Load has read.
func Compare(a, b reports.Run) reports.Comparison { return reports.Compare(a, b) }

// build makes the plan; reserve is the memory of every rank that a schedule that is
// searched for leaves free.
func (p *Prediction) build(ctx context.Context, reserve []int64) (err error) {
	if err := memory.CheckTasks(p.Config.Tasks()); err != nil {
		return fmt.Errorf("%s: %w", p.Config.Name(), err)
	}
	start := time.Now()
	build := func() (*configs.Plan, error) { return p.Config.BuildReserving(ctx, reserve) }
	if configs.IsSearched(p.Config.Schedule.Name) { // a search has a solver to end
		p.Plan, err = build()
	} else {
		p.Plan, err = interrupt.Await(ctx, build)
	}
	p.BuildTime += time.Since(start)
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// simulate runs the plan and fills the result.
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

// simulateWhole is simulate, uninterrupted.
func (p *Prediction) simulateWhole() (err error) {
	start := time.Now()
	if p.Simulation, err = Simulate(p.Plan); err != nil {
		return err
	}
	p.SimulationTime += time.Since(start)
	p.Result = reports.NewResult(reports.Predicted, p.Trace, p.Summary, p.info())
	p.Result.Search = found(p.Plan, p.Trace)
	p.Result.CriticalPath = reports.NewCriticalPath(p.Trace, sim.CriticalPath(p.Trace))
	return nil
}

// info returns what the result says that its trace does not.
func (p *Prediction) info() reports.Info {
	shape := p.Plan.Graph.Shape
	return reports.Info{
		Name: p.Config.Name(), Schedule: p.Plan.Graph.Name,
		Stages: shape.Ranks, VirtualStages: shape.Virtual, Microbatches: shape.Microbatches,
		DataParallel: max(1, shape.Replicas), TensorParallel: max(1, p.Config.Parallel.Tensor),
		Samples: p.Plan.Samples, Tokens: p.Plan.Tokens, Capacity: p.Plan.Capacity,
		Margin: p.Plan.Machine.Device.Margin, Warnings: slices.Clone(p.Plan.Warnings),
	}
}

// reserveForMessages searches again where the order that was found does not fit,
// because messages wait in memory, which the search does not count.
func (p *Prediction) reserveForMessages(ctx context.Context) error {
	const rounds = 6
	if p.Plan.Search == nil || p.Result.FitsMemory {
		return nil
	}
	first := *p
	reserve := make([]int64, p.Plan.Graph.Shape.Ranks)
	for range rounds {
		for _, r := range p.Result.Ranks {
			if over := r.PeakMemory - p.Plan.Capacity[r.Rank]; over > 0 {
				reserve[r.Rank%len(reserve)] += over
			}
		}
		if err := p.build(ctx, reserve); err != nil {
			return err
		}
		if err := p.simulate(ctx); err != nil {
			return err
		}
		if p.Result.FitsMemory {
			return nil
		}
	}
	*p = first
	return nil
}

// found says how good the order is, where one was searched for. The span is that of
// the simulation, in which messages may queue.
func found(plan *configs.Plan, t *graph.Trace) *reports.Search {
	if plan.Search == nil {
		return nil
	}
	s := &reports.Search{LowerBound: plan.Search.LowerBound.Seconds(), Span: longestSpan(t).Seconds()}
	if s.LowerBound > 0 {
		s.Gap = max(0, s.Span/s.LowerBound-1)
	}
	s.Order = strings.Split(strings.TrimSuffix(plan.Search.Order.String(), "\n"), "\n")
	return s
}

// longestSpan returns the longest time from a rank's first compute task to the end of
// its last.
func longestSpan(t *graph.Trace) time.Duration {
	var longest time.Duration
	first := make([]time.Duration, t.Graph.Ranks())
	seen := make([]bool, len(first))
	for i := range t.Graph.Tasks { // a rank's tasks stand in its order
		task := &t.Graph.Tasks[i]
		if !task.Kind.Compute() {
			continue
		}
		if r := task.Rank; !seen[r] {
			seen[r], first[r] = true, t.Spans[i].Start
		}
		longest = max(longest, t.Spans[i].End-first[task.Rank])
	}
	return longest
}
