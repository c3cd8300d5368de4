package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"psim/internal/units"
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

// largeGraph is the number of tasks beyond which the search would take long.
const largeGraph = 200_000

// remedy finds the least change under which every rank has room, by
// simulating one combination after another.
func (e *experiment) remedy(ctx context.Context) string {
	if len(e.plan.Graph.Tasks) > largeGraph {
		return "the graph is too large to try what would fit; 1f1b, smaller microbatches, recomputation and zero save memory"
	}
	tried := e.combinations()
	for _, sets := range tried {
		other, peak := e.try(ctx, sets)
		if other == nil || other.overflow() >= 0 {
			continue
		}
		return fmt.Sprintf("it would fit with --set %s (%s at most, step %s)",
			strings.Join(sets, " --set "), units.FormatBytes(peak), units.FormatDuration(other.trace.End()))
	}
	text := "none of the changes that usually save memory makes it fit"
	if len(tried) == 0 {
		text = "psim knows no change of the schedule that would save memory here"
	} else if least, peak := e.try(ctx, tried[len(tried)-1]); least != nil {
		text += fmt.Sprintf(": even with --set %s it needs %s", strings.Join(tried[len(tried)-1], " --set "), units.FormatBytes(peak))
	}
	return text + "; it takes a larger device or another model, batch or split"
}

// try simulates the experiment with some settings changed, and returns the
// highest peak of its ranks; nil where the settings are not legal together.
func (e *experiment) try(ctx context.Context, sets change) (*experiment, int64) {
	c, err := e.config.With(sets...)
	if err != nil {
		return nil, 0
	}
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

// zeros lists higher ZeRO stages than the experiment's.
func (e *experiment) zeros() []change {
	list := []change{nil}
	for z := e.plan.Workload.Zero + 1; z <= 2 && e.plan.Graph.Shape.Replicas > 1; z++ {
		list = append(list, change{fmt.Sprintf("parallel.zero=%d", z)})
	}
	return list
}

// smaller lists smaller microbatches, by halves.
func (e *experiment) smaller() []change {
	list := []change{nil}
	micro, count := e.plan.Workload.Samples[0], e.plan.Graph.Shape.Microbatches
	perMicrobatch := len(e.plan.Graph.Tasks)/count + 1
	for micro > 1 && perMicrobatch*count < largeGraph {
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
