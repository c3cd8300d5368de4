package configs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"psim/costmodel"
	"psim/costmodel/memory"
	"psim/costmodel/stages"
	"psim/internal/units"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/search"
	"psim/schedules/wiring"
)

// The schedules whose orders are found by search: for one stage per rank, and for two in a V.
const (
	autoName  = "auto"
	autoVName = "auto-v"
)

// Searched lists the schedules whose orders are found by search. The catalog does not have them,
// because their orders depend on the costs of tasks.
func Searched() []schedules.Schedule {
	v, _ := schedules.Find("zbv") // auto-v places stages as it does
	v.Name = autoVName
	return []schedules.Schedule{{Name: autoName, Pipelined: true}, v}
}

// IsSearched reports whether a schedule's order is found by search.
func IsSearched(name string) bool { return name == autoName || name == autoVName }

// findSchedule finds a schedule by its name, in the catalog or among the searched ones.
func findSchedule(name string) (schedules.Schedule, error) {
	searched := Searched()
	if i := slices.IndexFunc(searched, func(s schedules.Schedule) bool { return s.Name == name }); i >= 0 {
		return searched[i], nil
	}
	return schedules.Find(name)
}

// checkAuto refuses settings that the search does not support.
func (c *Config) checkAuto(own schedules.Schedule, stageRank []int32) error {
	name := own.Name
	switch {
	case c.Schedule.VirtualStages > 1 && !c.folded():
		return fmt.Errorf("virtual_stages = %d: auto searches orders for one stage per rank; "+
			"remove virtual_stages or set it to 1", c.Schedule.VirtualStages)
	case c.Schedule.Synchronous:
		return fmt.Errorf("synchronous = true: %s searches for an order without barriers; set it to false", name)
	case c.Parallel.Zero == 3:
		return fmt.Errorf("name = %q: is not modelled with parallel.zero = 3; set parallel.zero = 2, or use another "+
			"schedule", name)
	case !slices.Equal(stageRank, own.Placement(c.shape(own, 1)).First):
		needs := "one stage per rank, stage s on rank s"
		if c.folded() {
			needs = "two stages per rank, in a V"
		}
		return fmt.Errorf("%s cannot run stages on the ranks %v: it needs %s", name, stageRank, needs)
	}
	return nil
}

// folded reports whether an order for a V is searched for.
func (c *Config) folded() bool { return c.Schedule.Name == autoVName }

// Exact lets an installed solver prove the order of schedule.name = "auto", within a time limit;
// 0 means that only the heuristic runs.
func (c *Config) Exact(limit time.Duration) { c.exact = limit }

// findOrder searches for an order, with the solver if Exact has asked for it.
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
		return nil, c.problemf("memory", "limit = %q: %s of activations for one microbatch do not fit, "+
			"so no order does", c.Memory.Limit, units.FormatBytes(full.Need))
	case err != nil:
		return nil, c.problemf("schedule", "name = %q: %w", c.Schedule.Name, err)
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

// A modelSearch is the network and the machine that an order is searched for. The search does not
// count messages that wait to be used, so reserve bytes are kept free for them on each rank of a
// replica.
type modelSearch struct {
	workload *stages.Workload
	machine  costmodel.Machine
	reserve  []int64
}

// searchModel finds the order for a network on a machine, under the memory that persistent
// state leaves.
func (c *Config) searchModel(ctx context.Context, shape graph.Shape, s modelSearch) (*search.Solution, error) {
	w, m := s.workload, s.machine
	single := *w // the search does not count sums over replicas
	single.Replicas, single.Shards = 1, nil
	planned := single.Staged()
	g, err := wiring.Pipeline{
		Name: c.Schedule.Name, Shape: shape, Placement: w.Placement,
		Order:   search.Split(shape.Ranks, shape.Microbatches, c.folded()),
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
			if s.reserve != nil {
				in.Limit[r] -= s.reserve[r]
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

// ordered finds the schedule to build: the catalog's of that name, or that of
// schedule.file, whose size then completes the experiment.
func (c *Config) ordered() (*Config, schedules.Schedule, error) {
	if c.Schedule.File == "" {
		schedule, err := findSchedule(c.Schedule.Name)
		if err != nil {
			return nil, schedule, c.problem("schedule", c.unknownSchedule())
		}
		return c, schedule, nil
	}
	for _, key := range []string{"placement", "group"} {
		if c.Defined("schedule." + key) {
			return nil, schedules.Schedule{}, c.problemf("schedule", "%s: has no meaning with file, "+
				"which says where and in which order all is done; remove %s", key, key)
		}
	}
	schedule, shape, err := c.readOrder()
	if err != nil {
		return nil, schedule, c.problemf("schedule", "file = %q: %w", c.Schedule.File, err)
	}
	filled := *c
	for _, e := range []struct {
		key  string
		into *int
		has  int
	}{
		{"stages", &filled.Schedule.Stages, shape.Ranks},
		{"microbatches", &filled.Schedule.Microbatches, shape.Microbatches},
		{"virtual_stages", &filled.Schedule.VirtualStages, shape.Virtual},
	} {
		if c.Defined("schedule."+e.key) && *e.into != e.has {
			return nil, schedule, c.problemf("schedule", "%s = %d: %s has %d; remove %s, which follows from the "+
				"file", e.key, *e.into, schedule.Name, e.has, e.key)
		}
		*e.into = e.has
	}
	return &filled, schedule, nil
}

func (c *Config) readOrder() (schedules.Schedule, graph.Shape, error) {
	data, err := c.readBeside(c.Schedule.File, order.MaxFile)
	if err != nil {
		return schedules.Schedule{}, graph.Shape{}, err
	}
	o, err := order.ReadCSV(bytes.NewReader(data))
	if err != nil {
		return schedules.Schedule{}, graph.Shape{}, err
	}
	return schedules.Custom(filepath.Base(c.Schedule.File), o)
}
