package session

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"

	"psim/configs"
	"psim/internal/units"
)

// Notes says, a line each, what a run of some configurations reads, assumes and
// decides, before it begins: of the first of them, and of the options. What cannot be
// built has only its inputs.
func Notes(list []*configs.Config, o Options) []string {
	c := list[0]
	experiment, err := c.Build()
	if err != nil {
		return c.Inputs()
	}
	lines := append(c.Inputs(), c.Decisions(experiment)...)
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if source := cmp.Or(o.Data.Source, "synthetic"); source == "synthetic" {
		made := "the same batch in every step"
		if n := c.Data.Samples; n > 0 {
			made = units.FormatCount(n) + " of them"
		}
		say("assumes  made-up samples, %s", made)
	} else {
		say("reads    samples of %s", source)
	}
	if len(list) > 1 {
		say("decides  schedules %s, one after another", strings.Join(Modes(), ", "))
	}
	job := (&Run{Config: c, Plan: experiment}).job(o)
	say("decides  backend %s, %s of %s of this machine", cmp.Or(o.Devices.Backend, "go"), units.Plural(experiment.Graph.Ranks(), "device"), units.Plural(runtime.NumCPU(), "core"))
	unit, measured := "step", o.Steps
	if o.Epochs > 0 {
		unit, measured = "epoch", o.Epochs
	}
	say("decides  every task measured alone %s, then %s to warm up and %d to measure", units.Plural(o.Repeats, "time"), units.Plural(o.Warmup, unit), measured)
	say("decides  seed %d, learning rate %g", o.Seed, job.Optimizer.LearningRate)
	return lines
}
