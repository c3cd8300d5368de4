package configs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"psim/costmodel"
	"psim/costmodel/memory"
	"psim/costmodel/stages"
	"psim/internal/units"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/search"
	"psim/schedules/wiring"
)

// The schedules whose orders are found by search: for one stage per rank, and for
// a V of two.
const (
	autoName  = "auto"
	autoVName = "auto-v"
)

// Searched lists them. They have no rows in the catalog, because their orders
// depend on what tasks cost.
func Searched() []schedules.Schedule {
	v, _ := schedules.Find("zbv") // whose places auto-v takes
	v.Name = autoVName
	return []schedules.Schedule{{Name: autoName, Pipelined: true}, v}
}

// IsSearched reports whether a schedule's order is found by search.
func IsSearched(name string) bool { return name == autoName || name == autoVName }

// findSchedule looks a name up in the catalog, and beside it.
func findSchedule(name string) (schedules.Schedule, error) {
	searched := Searched()
	if i := slices.IndexFunc(searched, func(s schedules.Schedule) bool { return s.Name == name }); i >= 0 {
		return searched[i], nil
	}
	return schedules.Find(name)
}

// checkAuto refuses settings that the search does not serve.
func (c *Config) checkAuto(own schedules.Schedule, stageRank []int32) error {
	name := own.Name
	switch {
	case c.Schedule.VirtualStages > 1 && !c.folded():
		return fmt.Errorf("virtual_stages = %d: auto searches orders for one stage per rank; remove virtual_stages or set it to 1", c.Schedule.VirtualStages)
	case c.Schedule.Synchronous:
		return fmt.Errorf("synchronous = true: %s searches for an order without barriers; set it to false", name)
	case c.Parallel.Zero == 3:
		return fmt.Errorf("name = %q: parallel.zero = 3 makes stages of layers on one rank; use ddp", name)
	case !slices.Equal(stageRank, own.Placement(c.shape(own, 1)).First):
		needs := "one stage per rank, stage s on rank s"
		if c.folded() {
			needs = "two stages per rank, in a V"
		}
		return fmt.Errorf("%s cannot run stages on the ranks %v: it needs %s", name, stageRank, needs)
	}
	return nil
}

// folded reports whether orders are sought for a V.
func (c *Config) folded() bool { return c.Schedule.Name == autoVName }

// Exact lets an installed solver prove the order of schedule.name = "auto", for so
// long at most; 0 leaves it at the heuristic.
func (c *Config) Exact(limit time.Duration) { c.exact = limit }

// findOrder searches, with the solver if it is to prove the order.
func (c *Config) findOrder(ctx context.Context, in search.Problem) (*search.Solution, error) {
	find := search.Find
	if c.exact > 0 {
		find = func(ctx context.Context, in search.Problem) (search.Solution, error) {
			return search.Exact(ctx, in, c.exact)
		}
	}
	found, err := find(ctx, in)
	var full *search.MemoryError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &full):
		return nil, c.problem("memory", fmt.Errorf("limit = %q: %s of activations for one microbatch do not fit, so no order does", c.Memory.Limit, units.FormatBytes(full.Need)))
	case err != nil:
		return nil, c.problem("schedule", fmt.Errorf("name = %q: %w", c.Schedule.Name, err))
	}
	return &found, nil
}

func (c *Config) searchTimes(ctx context.Context, shape graph.Shape, stageRank []int32) (*search.Solution, error) {
	stages := len(stageRank)
	if err := c.checkTimes(stages, shape.Microbatches, true); err != nil {
		return nil, err
	}
	in := search.FromCosts(shape.Ranks, shape.Microbatches, c.folded(), c.Times.Costs(c.Memory, graph.Placement{}))
	in.Latency = slices.Repeat([]time.Duration{time.Duration(c.Times.PointToPoint)}, stages-1)
	if c.Memory.Limit > 0 {
		in.Limit = slices.Repeat([]int64{int64(c.Memory.Limit)}, shape.Ranks)
	}
	return c.findOrder(ctx, in)
}

// searchModel finds the order for a network on a machine, under the memory that
// persistent state leaves. Messages that wait to be used are not counted by the
// search, so reserve bytes are kept free for them on each rank of a replica.
func (c *Config) searchModel(ctx context.Context, shape graph.Shape, w *stages.Workload, m costmodel.Machine, reserve []int64) (*search.Solution, error) {
	alone := *w // the search counts no sums over replicas
	alone.Replicas, alone.Shards = 1, nil
	planned := alone.Staged()
	g, err := wiring.Pipeline{
		Name: c.Schedule.Name, Shape: shape, Placement: w.Placement, Order: search.Split(shape.Ranks, shape.Microbatches, c.folded()),
		Samples: w.Samples, Boundaries: planned.Boundaries(),
	}.Graph()
	if err != nil {
		return nil, c.problem("schedule", err)
	}
	costs, err := costmodel.StepCosts(m, planned, g)
	if err != nil {
		return nil, c.problem("machine", err)
	}
	in := search.FromCosts(shape.Ranks, shape.Microbatches, c.folded(), costs)
	in.Latency = boundaryTimes(g, costs)
	if most := m.RankMemory(); most > 0 {
		persistent := memory.Persistent(w.Staged(), g.Ranks())
		for r := range shape.Ranks {
			in.Limit = append(in.Limit, int64(float64(most-persistent[r])/(1+w.Process.Allocator)))
			if reserve != nil {
				in.Limit[r] -= reserve[r]
			}
		}
	}
	return c.findOrder(ctx, in.Relaxed())
}

// boundaryTimes finds the slowest message over every stage boundary.
func boundaryTimes(g *graph.Graph, costs graph.Costs) []time.Duration {
	times := make([]time.Duration, g.Placement.Stages()-1)
	for i := range g.Classes {
		t := &g.Classes[i]
		if !t.Kind.Message() {
			continue
		}
		boundary := t.Stage
		if t.Kind == graph.SendBackward {
			boundary--
		}
		cost := costs.Task(t)
		times[boundary] = max(times[boundary], cost.Busy+cost.Delay)
	}
	return times
}
