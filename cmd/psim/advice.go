package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim/configs"
	"psim/internal/units"
	"psim/schedules"
)

// advise adds to the warning that a device's memory is exceeded what would
// make the experiment fit.
func (e *experiment) advise(ctx context.Context) {
	if e.overflow() >= 0 {
		e.result.Warnings = append(e.result.Warnings, e.remedy(ctx))
	}
}

// A change is a way to save memory: settings to make, none for leaving things
// as they are.
type change []string

// budget is the number of tasks that looking for advice may simulate in all.
const budget = 2_000_000

// remedy finds the least change under which every rank has room, by
// simulating one combination after another.
func (e *experiment) remedy(ctx context.Context) string {
	combinations := e.combinations()
	left, least := float64(budget), int64(math.MaxInt64)
	var closest change
	tried := 0
	for _, sets := range combinations {
		c, err := e.config.With(sets...)
		if err != nil {
			continue
		}
		size := e.tasksOf(c)
		if size > left {
			continue
		}
		left -= size
		other, peak := e.try(ctx, c)
		if other == nil {
			continue
		}
		tried++
		if other.overflow() < 0 {
			return fmt.Sprintf("it would fit with --set %s (%s at most, step %s)",
				strings.Join(sets, " --set "), units.FormatBytes(peak), units.FormatDuration(other.trace.End()))
		}
		if peak < least {
			least, closest = peak, sets
		}
	}
	if e.plan.Workload == nil && tried == 0 {
		return "[times] says how much each task holds, and no other schedule here holds less: raise memory.limit or lower memory.activation"
	}
	if tried < len(combinations) {
		return fmt.Sprintf("%d of %d changes that save memory were small enough to try, and none makes it fit", tried, len(combinations))
	}
	return fmt.Sprintf("none of %d changes that save memory makes it fit; the closest is --set %s, with %s",
		tried, strings.Join(closest, " --set "), units.FormatBytes(least))
}

// tasksOf estimates the number of tasks of a variant of this experiment. The
// sums of gradients are as many in each, or under ZeRO 2 for each microbatch.
func (e *experiment) tasksOf(c *configs.Config) float64 {
	sums := 0
	for i := range e.plan.Graph.Tasks {
		if k := e.plan.Graph.Tasks[i].Kind; k == schedules.AllReduce || k == schedules.ReduceScatter {
			sums++
		}
	}
	collectives := float64(sums)
	if e.plan.Workload != nil && e.plan.Workload.Zero >= 2 {
		collectives /= float64(e.plan.Graph.Shape.Microbatches)
	}
	if c.Parallel.Zero >= 2 {
		collectives *= c.Microbatches()
	}
	return c.Tasks() + 2*collectives
}

// try simulates a variant and returns the highest peak of its ranks; nil
// where the settings are not legal together.
func (e *experiment) try(ctx context.Context, c *configs.Config) (*experiment, int64) {
	other, err := simulate(ctx, c)
	if err != nil {
		return nil, 0
	}
	var peak int64
	for _, r := range other.result.Ranks {
		peak = max(peak, r.PeakMemory)
	}
	return other, peak
}

// combinations lists what can be changed together, fewest changes first and
// the most thorough last.
func (e *experiment) combinations() []change {
	kinds := [][]change{e.schedules()}
	if e.plan.Workload != nil {
		kinds = append(kinds, e.zeros(), e.smaller(), []change{nil, {"train.recompute=selective"}, {"train.recompute=full"}})
	}
	list := []change{nil}
	for _, kind := range kinds {
		var next []change
		for _, before := range list {
			for _, c := range kind {
				next = append(next, slices.Concat(before, c))
			}
		}
		list = next
	}
	slices.SortStableFunc(list, func(a, b change) int { return len(a) - len(b) })
	return list[1:] // without the change that is none
}

// schedules lists schedules that hold fewer activations.
func (e *experiment) schedules() []change {
	if name := e.plan.Graph.Name; name == "gpipe" || name == "torchgpipe" {
		return []change{nil, {"schedule.name=1f1b"}}
	}
	return []change{nil}
}

// zeros lists higher ZeRO stages than the experiment's. Only ddp has the third.
func (e *experiment) zeros() []change {
	list, highest := []change{nil}, 2
	if e.plan.Graph.Name == "ddp" {
		highest = 3
	}
	for z := e.plan.Workload.Zero + 1; z <= highest && e.plan.Graph.Shape.Replicas > 1; z++ {
		list = append(list, change{fmt.Sprintf("parallel.zero=%d", z)})
	}
	return list
}

// smaller lists smaller microbatches, by halves.
func (e *experiment) smaller() []change {
	list := []change{nil}
	micro, count := e.plan.Workload.Samples[0], e.plan.Graph.Shape.Microbatches
	for micro > 1 && count < budget {
		micro, count = (micro+1)/2, count*2
		var sets change
		if e.config.Defined("batch.micro") {
			sets = append(sets, fmt.Sprintf("batch.micro=%d", micro))
		}
		if e.config.Defined("schedule.microbatches") || len(sets) == 0 {
			sets = append(sets, fmt.Sprintf("schedule.microbatches=%d", count))
		}
		list = append(list, sets)
	}
	return list
}
