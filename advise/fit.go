// Package advise says what to change: what would make a step fit in memory, and what one
// change each would give. It finds both by predicting variants.
package advise

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"psim"
	"psim/configs"
	"psim/internal/units"
	"psim/results"
	"psim/schedules/graph"
)

// Fit adds to the result what would make a prediction fit in memory that does not, found
// by simulating variants.
func Fit(ctx context.Context, p *psim.Prediction) { advised{p}.fit(ctx) }

// An advised prediction is one whose changes are looked for.
type advised struct{ *psim.Prediction }

func (p advised) fit(ctx context.Context) {
	if p.Result.Fits() {
		return
	}
	s := remedySearch{least: shortage(p.Result), budget: budget}
	s.run(ctx, p)
	p.Result.WouldFit = s.found
	advice := s.failure(p)
	if len(s.found) > 0 {
		var texts []string
		for _, r := range s.found {
			texts = append(texts, p.describe(r))
		}
		advice = "it would fit with " + strings.Join(texts, "; or with ")
	}
	p.Result.Warnings = append(p.Result.Warnings, advice)
}

func (p advised) describe(r results.Remedy) string {
	text := fmt.Sprintf("--set %s (%s at most, step %s", strings.Join(r.Set, " --set "), units.FormatBytes(r.PeakMemory), units.FormatSeconds(r.StepTime))
	have := p.Devices()
	if r.Devices < have {
		text = "fewer workers: " + text
	}
	if r.Devices != have {
		text += fmt.Sprintf(", on %s in place of %d", units.Plural(r.Devices, "device"), have)
	}
	return text + ")"
}

// batch counts the samples of a step over all replicas; 0 where no network is known.
func (p advised) batch() int64 {
	if p.Experiment.Staged == nil {
		return 0
	}
	return p.Experiment.Staged.Total()
}

// A change is a way to save memory: settings to make, none for leaving things
// as they are.
type change []string

// budget bounds the tasks that looking for advice may simulate in all, and enough the
// remedies that are worth naming.
const (
	budget = 2_000_000
	enough = 3
)

// remedySearch looks for the least changes under which every rank's memory
// suffices: none of them is another with more changed.
type remedySearch struct {
	found        []results.Remedy
	fitting      [][]int // the combinations of those found
	tried, large int     // combinations that were simulated, or too large for it
	closest      change  // of those that do not fit
	least        int64   // bytes that its fullest rank or node lacks; before any, those that the plan itself does
	budget       float64 // tasks that may still be simulated
}

func (s *remedySearch) run(ctx context.Context, p advised) {
	kinds := p.offeredKinds()
	for _, chosen := range combinations(kinds) {
		if len(s.found) == enough {
			return
		}
		if slices.ContainsFunc(s.fitting, func(f []int) bool { return covers(chosen, f) }) {
			continue
		}
		var sets change
		for k, i := range chosen {
			sets = append(sets, kinds[k][i]...)
		}
		if c, err := p.Config.With(sets...); err == nil && s.try(ctx, p, c, sets) {
			s.fitting = append(s.fitting, chosen)
		}
	}
}

// try simulates a variant of a prediction, as far as the budget goes and its settings
// are legal together, and reports whether it fits. A variant with another batch is
// another training, and no advice, unless fewer workers have as much each.
func (s *remedySearch) try(ctx context.Context, before advised, c *configs.Config, sets change) bool {
	tasks := before.tasksOf(c)
	if tasks > s.budget {
		s.large++
		return false
	}
	s.budget -= tasks
	estimated, err := psim.Estimate(ctx, c)
	p := advised{estimated}
	if err != nil || !p.sameBatch(before) {
		return false
	}
	s.tried++
	if p.Result.Fits() {
		s.found = append(s.found, results.Remedy{Set: sets, PeakMemory: p.Result.PeakMemory(), StepTime: p.Result.StepTime, Devices: p.Devices()})
	} else if short := shortage(p.Result); short < s.least {
		s.least, s.closest = short, sets
	}
	return p.Result.Fits()
}

// sameBatch reports whether two trainings have the same batch in all, or p has fewer
// replicas with the same batch each.
func (p advised) sameBatch(before advised) bool {
	now, then := int64(p.Experiment.Graph.Shape.Replicas), int64(before.Experiment.Graph.Shape.Replicas)
	if now < then {
		return p.batch()*then == before.batch()*now
	}
	return p.batch() == before.batch()
}

// failure says what was tried where nothing was found, why not more devices, and where to look.
func (s *remedySearch) failure(p advised) string {
	text := s.fruitless(p)
	if m := p.Experiment.Machine; m.DevicesPerNode > 0 && m.Network.Bandwidth == 0 {
		text += fmt.Sprintf("; machine.network is not given, so that there can be no more than the %s of a node", units.Plural(m.DevicesPerNode, "device"))
	}
	if p.divisible() {
		text += fmt.Sprintf("; psim search CONFIG --devices %d%s, with the same settings, tries all ways to divide the network among as many devices", p.Devices(), p.trainer())
	}
	return text
}

// divisible reports whether the devices may share the network in other ways, of which a
// search for advice, unlike psim search, tries few: none that has fewer replicas for it.
func (p advised) divisible() bool { return p.Experiment.Staged != nil && p.Devices() > 1 }

// fruitless says what was tried.
func (s *remedySearch) fruitless(p advised) string {
	closest := strings.Join(s.closest, " --set ")
	switch {
	case p.Experiment.Staged == nil && s.tried == 0:
		return "[times] says how much each task holds, and no other schedule here holds less: raise memory.limit or lower memory.activation"
	case s.large > 0:
		return fmt.Sprintf("%d of %d changes that save memory%s were small enough to try, and none makes it fit", s.tried, s.tried+s.large, p.ofStack())
	case s.tried == 0 && p.divisible():
		return "as the network is divided, nothing that saves memory" + p.ofStack() + " is left to change"
	case s.tried == 0:
		return "nothing that saves memory" + p.ofStack() + " is left to change: take a smaller model, shorter sequences or a device with more memory"
	case s.closest == nil:
		return fmt.Sprintf("no change that saves memory%s brings it nearer to fitting (%d tried)", p.ofStack(), s.tried)
	case s.tried == 1:
		return fmt.Sprintf("the one change that saves memory%s, --set %s, does not make it fit: it is %s short", p.ofStack(), closest, units.FormatBytes(s.least))
	}
	return fmt.Sprintf("none of %d changes that save memory%s makes it fit; the closest is --set %s, which is %s short", s.tried, p.ofStack(), closest, units.FormatBytes(s.least))
}

// shortage returns the bytes that the fullest rank or node has too little.
func shortage(r results.Result) (bytes int64) {
	for _, rank := range r.Ranks {
		if rank.MemoryCapacity > 0 {
			bytes = max(bytes, rank.PeakMemory-rank.MemoryCapacity)
		}
	}
	for _, n := range r.Nodes {
		bytes = max(bytes, n.PeakMemory-n.MemoryCapacity)
	}
	return bytes
}

// tasksOf estimates the number of tasks of a variant of this prediction. The
// sums of gradients are as many in each, or under ZeRO 2 for each microbatch.
func (p advised) tasksOf(c *configs.Config) float64 {
	sums, g := 0, p.Experiment.Graph
	for i, n := range g.Counts() {
		if k := g.Classes[i].Kind; k == graph.AllReduce || k == graph.ReduceScatter {
			sums += n
		}
	}
	collectives := float64(sums * max(1, g.Copies))
	if p.Experiment.Staged != nil && p.Experiment.Staged.Zero >= 2 {
		collectives /= float64(p.Experiment.Graph.Shape.Microbatches)
	}
	if c.Parallel.Zero >= 2 {
		collectives *= c.Microbatches()
	}
	return c.Tasks() + 2*collectives
}
