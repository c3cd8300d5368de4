package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"psim/configs"
	"psim/reports"
	"psim/schedules/graph"
	"psim/sim"
)

// experiment is a configuration that has been simulated.
type experiment struct {
	config     *configs.Config
	plan       *configs.Plan
	trace      *graph.Trace
	result     reports.Result
	build, sim time.Duration
}

// simulate builds and simulates a configuration.
func simulate(ctx context.Context, c *configs.Config) (*experiment, error) {
	if err := checkSize(c.Tasks()); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name(), err)
	}
	e := &experiment{config: c}
	if err := e.simulate(ctx, nil); err != nil {
		return nil, err
	}
	return e, e.leaveRoom(ctx)
}

// simulate builds and simulates the experiment; reserve is what a schedule that
// is searched for leaves free.
func (e *experiment) simulate(ctx context.Context, reserve []int64) error {
	if err := e.construct(ctx, reserve); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.replay(ctx)
}

// construct builds the experiment.
func (e *experiment) construct(ctx context.Context, reserve []int64) (err error) {
	start := time.Now()
	e.plan, err = e.config.BuildReserving(ctx, reserve)
	e.build += time.Since(start)
	return err
}

// replay simulates what has been built.
func (e *experiment) replay(ctx context.Context) (err error) {
	start := time.Now()
	e.trace, err = sim.Run(e.plan.Graph, e.plan.Costs)
	var deadlock *sim.DeadlockError
	if errors.As(err, &deadlock) {
		return failure{err}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.config.Name(), err)
	}
	e.sim += time.Since(start)
	e.summarize()
	return ctx.Err()
}

// leaveRoom searches again where the order that was found does not fit, because
// messages wait in memory, which the search does not count.
func (e *experiment) leaveRoom(ctx context.Context) error {
	const rounds = 6
	if e.plan.Search == nil || e.overflow() < 0 {
		return nil
	}
	first := *e
	reserve := make([]int64, e.plan.Graph.Shape.Ranks)
	for range rounds {
		for _, r := range e.result.Ranks {
			if over := r.PeakMemory - e.plan.Capacity[r.Rank]; over > 0 {
				reserve[r.Rank%len(reserve)] += over
			}
		}
		if err := e.simulate(ctx, reserve); err != nil {
			return err
		}
		if e.overflow() < 0 {
			return nil
		}
	}
	*e = first
	return nil
}

// summarize fills the result, the memory verdict included.
func (e *experiment) summarize() {
	shape := e.plan.Graph.Shape
	info := reports.Info{
		Name: e.config.Name(), Schedule: e.plan.Graph.Name,
		Stages: shape.Ranks, VirtualStages: shape.Virtual, Microbatches: shape.Microbatches,
		DataParallel: max(1, shape.Replicas), TensorParallel: max(1, e.config.Parallel.Tensor),
		Samples: e.plan.Samples, Tokens: e.plan.Tokens, Capacity: e.plan.Capacity,
		Margin: e.plan.Machine.Device.Margin, Warnings: slices.Clone(e.plan.Warnings),
	}
	summary := graph.Summarize(e.trace)
	e.result = reports.NewResult(reports.Predicted, e.trace, summary, info)
	e.result.Search = searched(e.plan, e.trace)
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

// searched says how good the order is, where one was searched for. The span is
// that of the simulation, in which messages may queue.
func searched(plan *configs.Plan, t *graph.Trace) *reports.Search {
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

// longestSpan is the longest time from a rank's first compute task to the end of
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
