package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"psim/configs"
	"psim/reports"
	"psim/schedules"
	"psim/sim"
)

// experiment is a configuration that has been simulated.
type experiment struct {
	config     *configs.Config
	plan       *configs.Plan
	trace      *schedules.Trace
	result     reports.Result
	build, sim time.Duration
}

// simulate builds and simulates a configuration.
func simulate(ctx context.Context, c *configs.Config) (*experiment, error) {
	if err := checkSize(c.Tasks()); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name(), err)
	}
	start := time.Now()
	plan, err := c.Build()
	if err != nil {
		return nil, err
	}
	built := time.Now()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	trace, err := sim.Run(plan.Graph, plan.Costs)
	var deadlock *sim.DeadlockError
	if errors.As(err, &deadlock) {
		return nil, failure{err}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name(), err)
	}
	e := &experiment{config: c, plan: plan, trace: trace, build: built.Sub(start), sim: time.Since(built)}
	e.summarize()
	return e, ctx.Err()
}

// summarize fills the result, the memory verdict included.
func (e *experiment) summarize() {
	shape := e.plan.Graph.Shape
	info := reports.Info{
		Name: e.config.Name(), Schedule: e.plan.Graph.Name,
		Stages: shape.Ranks, VirtualStages: shape.Virtual, Microbatches: shape.Microbatches,
		DataParallel: max(1, shape.Replicas), TensorParallel: 1,
		Samples: e.plan.Samples, Tokens: e.plan.Tokens, Capacity: e.plan.Capacity,
		Warnings: slices.Clone(e.plan.Warnings),
	}
	summary := schedules.Summarize(e.trace)
	e.result = reports.NewResult(reports.Predicted, e.trace, summary, info)
	e.result.CriticalPath = reports.NewCriticalPath(e.trace, sim.CriticalPath(e.trace))
}

// overflow returns the rank whose memory is exceeded most, or −1.
func (e *experiment) overflow() int {
	worst, most := -1, int64(0)
	for _, r := range e.result.Ranks {
		if e.plan.Capacity == nil {
			break
		}
		if over := r.PeakMemory - e.plan.Capacity[r.Rank]; over > most {
			worst, most = r.Rank, over
		}
	}
	return worst
}
