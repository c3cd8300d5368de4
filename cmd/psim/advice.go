package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"psim/configs"
	"psim/internal/units"
	"psim/reports"
	"psim/schedules/graph"
)

// advise adds what would make an experiment fit that does not, and warns of one
// that fits so closely that fragmentation may keep it from doing so.
func (e *experiment) advise(ctx context.Context) {
	if e.overflow() < 0 {
		e.warnOfFragmentation()
		return
	}
	found, reason := e.remedies(ctx)
	e.result.WouldFit = found
	var texts []string
	for _, r := range found {
		text := fmt.Sprintf("--set %s (%s at most, step %s", strings.Join(r.Set, " --set "), units.FormatBytes(r.PeakMemory),
			units.FormatDuration(time.Duration(math.Round(r.StepTime*1e9))))
		if have := e.devices(); r.Devices != have {
			text += fmt.Sprintf(", on %d devices in place of %d", r.Devices, have)
		}
		texts = append(texts, text+")")
	}
	if len(texts) > 0 {
		reason = "it would fit with " + strings.Join(texts, "; or with ")
	}
	e.result.Warnings = append(e.result.Warnings, reason)
}

// fragmentation is the share of the memory that PyTorch's caching allocator was
// found to lose on average, training large models on A100 80 GB (Guo et al. 2024,
// GMLake, abstract: 15 %, at most 33).
const fragmentation = 0.15

// warnOfFragmentation speaks up where no margin was asked for.
func (e *experiment) warnOfFragmentation() {
	if e.plan.Workload == nil || e.plan.Capacity == nil || e.config.Defined("machine.memory_margin") {
		return
	}
	worst := slices.MaxFunc(e.result.Ranks, func(a, b reports.RankResult) int {
		return int(a.PeakMemory-a.MemoryCapacity) - int(b.PeakMemory-b.MemoryCapacity)
	})
	free := 1 - float64(worst.PeakMemory)/float64(worst.MemoryCapacity)
	if free < fragmentation {
		e.result.Warnings = append(e.result.Warnings, fmt.Sprintf(
			"rank %d has %.0f %% of its memory to spare, and fragmentation may take more: see machine.memory_margin", worst.Rank, 100*free))
	}
}

// devices is the number of devices that an experiment needs.
func (e *experiment) devices() int { return e.plan.Graph.Ranks() * max(1, e.config.Parallel.Tensor) }

// A change is a way to save memory: settings to make, none for leaving things
// as they are.
type change []string

// budget is the number of tasks that looking for advice may simulate in all, and
// enough the number of remedies that are worth naming.
const (
	budget = 2_000_000
	enough = 3
)

// remedies finds the least changes under which every rank has room, by simulating
// one combination after another: none of them is another with more changed. If
// there are none, it says what was tried.
func (e *experiment) remedies(ctx context.Context) ([]reports.Remedy, string) {
	kinds := e.kinds()
	all := combinations(kinds)
	left, least := float64(budget), int64(math.MaxInt64)
	var found []reports.Remedy
	var fitting [][]int
	var closest change
	tried, large := 0, 0
	for _, chosen := range all {
		if len(found) == enough {
			break
		}
		if slices.ContainsFunc(fitting, func(f []int) bool { return covers(chosen, f) }) {
			continue
		}
		var sets change
		for k, i := range chosen {
			sets = append(sets, kinds[k][i]...)
		}
		c, err := e.config.With(sets...)
		if err != nil {
			continue
		}
		size := e.tasksOf(c)
		if size > left {
			large++
			continue
		}
		left -= size
		other, peak := e.try(ctx, c)
		if other == nil {
			continue
		}
		tried++
		if other.overflow() < 0 {
			fitting = append(fitting, chosen)
			found = append(found, reports.Remedy{Set: sets, PeakMemory: peak, StepTime: other.result.StepTime, Devices: other.devices()})
		} else if peak < least {
			least, closest = peak, sets
		}
	}
	switch {
	case e.plan.Workload == nil && tried == 0:
		return nil, "[times] says how much each task holds, and no other schedule here holds less: raise memory.limit or lower memory.activation"
	case large > 0:
		return found, fmt.Sprintf("%d of %d changes that save memory were small enough to try, and none makes it fit", tried, tried+large)
	case tried == 0:
		return found, "nothing that saves memory is left to change: take a smaller model, shorter sequences or a device with more memory"
	case tried == 1:
		return found, fmt.Sprintf("the one change that saves memory, --set %s, does not make it fit: %s", strings.Join(closest, " --set "), units.FormatBytes(least))
	}
	return found, fmt.Sprintf("none of %d changes that save memory makes it fit; the closest is --set %s, with %s",
		tried, strings.Join(closest, " --set "), units.FormatBytes(least))
}

// tasksOf estimates the number of tasks of a variant of this experiment. The
// sums of gradients are as many in each, or under ZeRO 2 for each microbatch.
func (e *experiment) tasksOf(c *configs.Config) float64 {
	sums := 0
	for i := range e.plan.Graph.Tasks {
		if k := e.plan.Graph.Tasks[i].Kind; k == graph.AllReduce || k == graph.ReduceScatter {
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
