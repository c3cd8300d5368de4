package plans

import (
	"slices"
	"sync"
	"time"

	"psim/configs"
	"psim/costmodel/memory"
	"psim/costmodel/stages"
)

// A stageKey is equal for plans with the same stages on the same ranks: they differ only
// in the order of their tasks.
type stageKey struct {
	layerKey
	stages, data, zero int
	placement          string
}

// stageKeyOf returns the stageKey of a plan.
func (s *Space) stageKeyOf(p *Plan) stageKey {
	at := s.placements[placementKey{p.Schedule, p.Stages, p.VirtualStages, p.Microbatches}]
	return stageKey{layerKeyOf(p), p.Stages, p.Data, p.Zero, at}
}

// A stageGroup holds what is known about the stages that several plans share. It has no
// constants of its own: every time and every byte is what the simulation would use for
// the same task.
type stageGroup struct {
	*stagePrices       // only while the group is made
	plan         *Plan // the first one
	tensors      int   // of the stages, with a share for their prices
	mutex        sync.Mutex
	shared       *sharedPrices // for simulations; nil once forgotten
	cached       bool          // in the cache of prices
	left         int           // plans that are still to be simulated
	least        time.Duration // the lowest bound of a plan

	pruned     string  // why none of the plans needs a simulation, or ""
	bounds     bounds  // of the step
	capacity   int64   // bytes of a rank; 0 is unlimited
	persistent []int64 // bytes by rank of a replica
	process    stages.ProcessMemory
	memory     []stageMemory // by stage
}

// newStageGroup makes the group of the plans that cut the network as one of them does, and bounds them. Most groups
// of a large network do not fit, which is known without lists of its tensors.
func newStageGroup(p *Plan) *stageGroup {
	cut, err := p.cut()
	if err != nil {
		return &stageGroup{pruned: Impossible}
	}
	if cut.Machine.RankMemory() > 0 {
		if sketch := cut.Sketch(); sketch != nil {
			if g := unpriced(p, sketch); g.pruned != "" {
				return g
			}
		}
	}
	g := unpriced(p, cut.Divide())
	switch {
	case g.pruned != "":
		return g
	case g.price() != nil:
		return &stageGroup{pruned: Impossible}
	}
	g.bounds = g.bound()
	g.shared, g.stagePrices = g.stagePrices.shared(), nil // free the memory of the rest
	return g
}

// unpriced counts the memory of the stages, and says if that is too much for all orders.
func unpriced(p *Plan, d *configs.Division) *stageGroup {
	g := &stageGroup{plan: p, capacity: d.Machine.RankMemory(), process: d.Workload.Process}
	for i := range d.Workload.Stages {
		g.tensors += 100 + len(d.Workload.Stages[i].Tensors)
	}
	g.persistent = memory.Lasting(d.Workload, d.Shape.Ranks)
	if g.capacity > 0 && slices.Max(g.persistent) > g.capacity {
		g.pruned = Parameters
		return g
	}
	if g.stagePrices = newStagePrices(d); g.measureActivations() {
		g.pruned, g.stagePrices = Activations, nil
	}
	return g
}
