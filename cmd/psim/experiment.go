package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"psim/configs"
	"psim/internal/units"
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
	if err != nil {
		return nil, failure{err}
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

// advise adds to the warning that a device's memory is exceeded what would
// make the experiment fit.
func (e *experiment) advise(ctx context.Context) {
	if e.overflow() >= 0 {
		e.result.Warnings = append(e.result.Warnings, e.remedy(ctx))
	}
}

// remedy looks for a change under which every rank has room, simulating one
// after another.
func (e *experiment) remedy(ctx context.Context) string {
	const largeGraph = 2_000_000
	if len(e.plan.Graph.Tasks) > largeGraph {
		return "fewer samples per microbatch, 1f1b or recomputation may make it fit"
	}
	for _, sets := range e.candidates() {
		c, err := e.config.With(sets...)
		if err != nil {
			continue
		}
		other, err := simulate(ctx, c)
		if err != nil || other.overflow() >= 0 {
			continue
		}
		var peak int64
		for _, r := range other.result.Ranks {
			peak = max(peak, r.PeakMemory)
		}
		text := "it would fit with"
		for _, s := range sets {
			text += " --set " + s
		}
		return fmt.Sprintf("%s (%s at most, step %s)", text, units.FormatBytes(peak), units.FormatDuration(other.trace.End()))
	}
	return fmt.Sprintf("of it %s are parameters, gradients and optimizer state, and none of the usual changes (1f1b, smaller microbatches, recomputation, zero) makes it fit: use more stages or a larger device",
		units.FormatBytes(e.result.Ranks[e.overflow()].PersistentMemory))
}

// candidates lists changes that save memory, the gentlest first.
func (e *experiment) candidates() [][]string {
	pipeline := e.plan.Graph.Name == "gpipe" || e.plan.Graph.Name == "torchgpipe"
	var list [][]string
	if pipeline {
		list = append(list, []string{"schedule.name=1f1b"})
	}
	if e.plan.Workload == nil {
		return list
	}
	if e.plan.Graph.Shape.Replicas > 1 {
		list = append(list, []string{"parallel.zero=1"}, []string{"parallel.zero=2"})
	}
	list = append(list, e.smaller()...)
	list = append(list, []string{"train.recompute=selective"}, []string{"train.recompute=full"})
	if pipeline {
		list = append(list, []string{"schedule.name=1f1b", "train.recompute=full"})
	}
	return list
}

// smaller lists smaller microbatches, by halves.
func (e *experiment) smaller() [][]string {
	var list [][]string
	micro, count := e.plan.Workload.Samples[0], e.plan.Graph.Shape.Microbatches
	for micro > 1 {
		micro, count = (micro+1)/2, count*2
		var sets []string
		if e.config.Defined("schedule.microbatches") || !e.config.Defined("batch.micro") {
			sets = append(sets, fmt.Sprintf("schedule.microbatches=%d", count))
		}
		if e.config.Defined("batch.micro") {
			sets = append(sets, fmt.Sprintf("batch.micro=%d", micro))
		}
		list = append(list, sets)
	}
	return list
}
