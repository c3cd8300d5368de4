// Package advise says what to change. [Fit] finds changes that make a step fit in memory,
// and [WhatIf] predicts what single changes would give. Both take a prediction as the
// baseline, list changes of its configuration, and predict each variant. They propose only
// changes that the configured stack supports.
package advise

import (
	"cmp"
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

// Fit adds to a prediction that does not fit in memory what would make it fit: remedies,
// and a warning that names them. It finds them by simulating variants.
func Fit(ctx context.Context, p *psim.Prediction) { baseline{p}.fit(ctx) }

// A baseline is the prediction that changes are tried on.
type baseline struct{ *psim.Prediction }

func (b baseline) fit(ctx context.Context) {
	if b.Result.Fits() {
		return
	}
	s := remedySearch{shortage: shortageOf(b.Result), budget: budget, sums: b.sums()}
	s.run(ctx, b)
	have := b.Devices()
	fits := slices.ContainsFunc(s.found, func(r results.Remedy) bool { return r.Devices <= have })
	if s.close != nil && !fits && (s.close.Devices <= have || len(s.found) == 0) {
		s.found = append(s.found, *s.close)
	}
	b.Result.WouldFit = s.found
	b.Result.Warnings = append(b.Result.Warnings, s.advice(b))
}

// advice words the result of the search for a warning.
func (s *remedySearch) advice(b baseline) string {
	if len(s.found) == 0 {
		return s.describeFailure(b)
	}
	var fit, others []string
	have, more := b.Devices(), true // more: all that fit need more devices
	for _, r := range s.found {
		if r.Close {
			others = append(others, "it would be "+results.Close+" with "+b.describe(r))
			continue
		}
		fit, more = append(fit, b.describe(r)), more && r.Devices > have
	}
	if len(fit) > 0 {
		others = slices.Insert(others, 0, "it would fit with "+strings.Join(fit, "; or with "))
	}
	if more {
		none := "no change makes it fit on " + units.Plural(have, "device")
		if b.Result.FineTuning != nil {
			none = "with all weights trained as they are, " + none
		}
		others = slices.Insert(others, 0, none)
	}
	return strings.Join(others, "; ")
}

// describe words a remedy for a warning.
func (b baseline) describe(r results.Remedy) string {
	text := fmt.Sprintf("%s--set %s (%s at most, step %s", flagged(r.Flags),
		strings.Join(r.Set, " --set "), units.FormatBytes(r.PeakMemory), units.FormatSeconds(r.StepTime))
	if r.Samples > 0 {
		text += ", " + units.FormatPerSecond(r.Samples) + " samples/s"
	}
	have := b.Devices()
	if r.Devices < have {
		text = "fewer workers: " + text
	}
	if r.Devices != have {
		text += fmt.Sprintf(", on %s instead of %d", units.Plural(r.Devices, "device"), have)
	}
	return text + ")"
}

// flagged writes flags in front of settings.
func flagged(flags []string) string { return strings.Join(append(slices.Clone(flags), ""), " ") }

// samplesOf counts the samples of a step over all replicas; 0 without a network.
func samplesOf(p *psim.Prediction) int64 {
	if p.Experiment.Staged == nil {
		return 0
	}
	return p.Experiment.Staged.Total()
}

// A change is a list of settings to try; nil changes nothing.
type change []string

const (
	budget       = 2_000_000 // tasks that a search for remedies may simulate in all
	mostRemedies = 3         // remedies that are worth naming
)

// remedySearch looks for minimal changes that make every rank fit: no remedy contains
// another one.
type remedySearch struct {
	found           []results.Remedy
	close           *results.Remedy // the first that leaves too little of the memory free
	fitting         []variant
	tried, tooLarge int     // variants that were simulated, or were too large for it
	closest         change  // the change with the smallest shortage
	shortage        int64   // bytes that the fullest rank or node lacks with closest, or without changes
	budget          float64 // tasks that may still be simulated
	sums            float64 // of gradients in the baseline
}

// A variant is a combination of changes under a layout.
type variant struct {
	chosen []int
	layout layout
}

// contains reports whether a variant changes everything that another changes.
func (v variant) contains(other variant) bool {
	return covers(v.chosen, other.chosen) && v.layout.contains(other.layout)
}

// run tries all changes that keep the layout, and then other layouts: those with as many devices
// or fewer, and those with more, in the order of their number. Of layouts with equally many
// devices, and of changes that keep the layout, those with the most samples per second come first.
func (s *remedySearch) run(ctx context.Context, b baseline) {
	kinds := b.supportedKinds()
	all := combinations(kinds)
	for _, chosen := range all[1:] {
		if remedy := s.tryVariant(ctx, b, kinds, variant{chosen, own}); remedy != nil {
			if !beaten(*remedy, s.found) {
				s.found = append(s.found, *remedy)
			}
		}
		if len(s.found) == mostRemedies {
			break
		}
	}
	s.found = s.ordered(s.found)
	if len(s.found) == mostRemedies {
		return
	}
	for _, group := range b.supportedLayouts() {
		var fit []results.Remedy
		for _, l := range group {
			if remedy := s.first(ctx, b, kinds, l); remedy != nil {
				fit = append(fit, *remedy)
			}
		}
		s.found = append(s.found, s.ordered(fit)...)
		if len(s.found) >= mostRemedies {
			s.found = s.found[:mostRemedies]
			return
		}
	}
}

// ordered puts remedies with the most samples per second first. Without samples, all have the same
// work, and the shortest step comes first. It leaves out those that others beat.
func (s *remedySearch) ordered(list []results.Remedy) (kept []results.Remedy) {
	slices.SortStableFunc(list, func(a, b results.Remedy) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.StepTime, b.StepTime))
	})
	for _, r := range list {
		if !beaten(r, kept) && !beaten(r, s.found) {
			kept = append(kept, r)
		}
	}
	return kept
}

// first returns the remedy with the fewest changes under a layout, or nil. It tries the most that
// can be changed before, which saves the other trials if even that does not fit.
func (s *remedySearch) first(ctx context.Context, b baseline, kinds [][]change, l layout) *results.Remedy {
	all := combinations(kinds)
	if !s.promises(ctx, b, kinds, l) {
		return nil
	}
	for _, chosen := range all {
		if remedy := s.tryVariant(ctx, b, kinds, variant{chosen, l}); remedy != nil {
			return remedy
		}
	}
	return nil
}

// promises reports whether the most changes that are legal under a layout make it fit, or whether
// that is not known.
func (s *remedySearch) promises(ctx context.Context, b baseline, kinds [][]change, l layout) bool {
	var sets change
	for _, kind := range kinds {
		with := append(slices.Clone(sets), kind[len(kind)-1]...)
		if whole := append(slices.Clone(with), l.sets...); !repeated(whole) {
			if _, err := b.Config.With(whole...); err == nil {
				sets = with
			}
		}
	}
	sets = append(sets, l.sets...)
	c, err := b.Config.With(sets...)
	if err != nil {
		return false
	}
	tooLarge := s.tooLarge
	remedy, known := s.try(ctx, b, c, sets)
	s.tooLarge = tooLarge
	return remedy != nil || !known
}

// tryVariant returns a remedy if a variant is legal, contains no remedy that was found, and fits.
func (s *remedySearch) tryVariant(ctx context.Context, b baseline, kinds [][]change, v variant) *results.Remedy {
	if slices.ContainsFunc(s.fitting, v.contains) {
		return nil
	}
	var sets change
	for k, i := range v.chosen {
		sets = append(sets, kinds[k][i]...)
	}
	sets = append(sets, v.layout.sets...)
	if repeated(sets) {
		return nil
	}
	c, err := b.Config.With(sets...)
	if err != nil {
		return nil
	}
	remedy, _ := s.try(ctx, b, c, sets)
	if remedy != nil {
		s.fitting = append(s.fitting, v)
	}
	return remedy
}

// beaten reports whether a remedy copies tensors to the host and another one, on no more devices, is at least as
// fast: whoever waits for the host's memory can recompute.
func beaten(r results.Remedy, others []results.Remedy) bool {
	return slices.ContainsFunc(r.Set, offloads) && slices.ContainsFunc(others, func(o results.Remedy) bool {
		return !slices.Equal(o.Set, r.Set) && o.Devices <= r.Devices && o.Samples >= r.Samples
	})
}

// repeated reports whether settings give a key twice.
func repeated(sets change) bool {
	seen := map[string]bool{}
	for _, set := range sets {
		key, _, _ := strings.Cut(set, "=")
		if seen[key] {
			return true
		}
		seen[key] = true
	}
	return false
}

// try simulates a configuration, if the budget allows it and its settings are legal together, and
// returns a remedy if it fits; the first that is close is kept aside. One with another batch trains
// differently and does not count, unless its replicas have the same batch each and may be of another
// number. known is false if the budget did not allow it.
func (s *remedySearch) try(
	ctx context.Context, b baseline, c *configs.Config, sets change,
) (remedy *results.Remedy, known bool) {
	tasks := s.tasksOf(c)
	if tasks > s.budget {
		s.tooLarge++
		return nil, false
	}
	s.budget -= tasks
	p, err := psim.Estimate(ctx, c)
	if err != nil || !b.hasBatchOf(p) {
		return nil, true
	}
	s.tried++
	remedy = p.Result.Remedy(sets)
	if b.Config.DevicesAsked() > 0 && remedy.Devices != b.Devices() {
		remedy.Flags = []string{fmt.Sprintf("--devices %d", remedy.Devices)}
	}
	switch {
	case p.Result.FitsMemory && !remedy.Close:
		return remedy, true
	case remedy.Close && s.close == nil && !b.Result.FitsMemory:
		s.close = remedy
	}
	if short := shortageOf(p.Result); short < s.shortage {
		s.shortage, s.closest = short, sets
	}
	return nil, true
}

// hasBatchOf reports whether the baseline has the same batch as a variant, or the variant
// has fewer replicas with the same batch each. If nobody asked for the batch, it may also have more.
func (b baseline) hasBatchOf(p *psim.Prediction) bool {
	now, then := replicasOf(p), replicasOf(b.Prediction)
	perReplica := now < then || b.batchIsAssumed()
	return samplesOf(p) == samplesOf(b.Prediction) || perReplica && samplesOf(p)*then == samplesOf(b.Prediction)*now
}

// replicasOf counts the replicas of a prediction.
func replicasOf(p *psim.Prediction) int64 { return int64(max(1, p.Experiment.Graph.Shape.Replicas)) }

// describeFailure says what was tried if nothing was found, why more devices are not
// possible, and where to look further.
func (s *remedySearch) describeFailure(b baseline) string {
	text := s.describeTries(b)
	if m := b.Experiment.Machine; m.DevicesPerNode > 0 && m.Network.Bandwidth == 0 {
		text += fmt.Sprintf("; machine.network is not given, so that there can be no more than the %s of a node",
			units.Plural(m.DevicesPerNode, "device"))
	}
	if b.hasOtherDivisions() {
		text += fmt.Sprintf("; psim search CONFIG --devices %d%s, with the same settings, "+
			"tries all ways to divide the network among as many devices", b.Devices(), b.trainerFlag())
	}
	return text
}

// hasOtherDivisions reports whether the devices may divide the network in other ways. Fit
// tries few of these, unlike psim search.
func (b baseline) hasOtherDivisions() bool { return b.Experiment.Staged != nil && b.Devices() > 1 }

// describeTries says what was tried.
func (s *remedySearch) describeTries(b baseline) string {
	closest := strings.Join(s.closest, " --set ")
	switch {
	case b.Experiment.Staged == nil && s.tried == 0:
		return "[times] says how much each task holds, and no other schedule here holds less: " +
			"raise memory.limit or lower memory.activation"
	case s.tooLarge > 0:
		return fmt.Sprintf("%d of %d changes that save memory%s were small enough to try, and none makes it fit",
			s.tried, s.tried+s.tooLarge, b.stackClause())
	case s.tried == 0 && b.hasOtherDivisions():
		return "as the network is divided, nothing that saves memory" + b.stackClause() + " is left to change"
	case s.tried == 0:
		return "nothing that saves memory" + b.stackClause() + " is left to change: " +
			"take a smaller model, shorter sequences or a device with more memory"
	case s.closest == nil:
		return fmt.Sprintf("no change that saves memory%s brings it nearer to fitting (%d tried)",
			b.stackClause(), s.tried)
	case s.tried == 1:
		return fmt.Sprintf("the one change that saves memory%s, --set %s, does not make it fit: it is %s short",
			b.stackClause(), closest, units.FormatBytes(s.shortage))
	}
	return fmt.Sprintf("none of %d changes that save memory%s makes it fit; the closest is --set %s, which is %s short",
		s.tried, b.stackClause(), closest, units.FormatBytes(s.shortage))
}

// shortageOf returns the bytes that the fullest rank or node lacks.
func shortageOf(r results.Result) (bytes int64) {
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

// tasksOf estimates the number of tasks of a variant. It assumes as many sums of gradients
// as in the baseline, and from ZeRO 2 on for each microbatch.
func (s *remedySearch) tasksOf(c *configs.Config) float64 {
	sums := s.sums
	if c.Parallel.Zero >= 2 {
		sums *= c.Microbatches()
	}
	return c.Tasks() + 2*sums
}

// sums counts the sums of gradients, from ZeRO 2 on of one microbatch.
func (b baseline) sums() float64 {
	sums, g := 0, b.Experiment.Graph
	for i, n := range g.Counts() {
		if k := g.Classes[i].Kind; k == graph.AllReduce || k == graph.ReduceScatter {
			sums += n
		}
	}
	all := float64(sums * g.Replicas())
	if b.Experiment.Staged != nil && b.Experiment.Staged.Zero >= 2 {
		all /= float64(g.Shape.Microbatches)
	}
	return all
}
