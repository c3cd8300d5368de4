package plans

import (
	"slices"
	"sync"
	"time"

	"psim/configs"
	"psim/costmodel/memory"
	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// A unitKey is what plans have in common whose stages are the same, on the same ranks:
// only the order in which these work differs.
type stageKey struct {
	layerKey
	stages, data, zero int
	placement          string
}

// keyOf says which unit a plan is of.
func (s *Space) stageKeyOf(p *Plan) stageKey {
	at := s.placements[placementKey{p.Schedule, p.Stages, p.VirtualStages, p.Microbatches}]
	return stageKey{layerKeyOf(p), p.Stages, p.Data, p.Zero, at}
}

// A unit prices the stages of plans. Nothing in it is a constant of its own: every time
// and every byte is what the simulation would take for the same task.
type stageGroup struct {
	stagePrices // while it is made
	cut         *configs.Cut
	tensors     int // of its stages, and more for their prices
	mutex       sync.Mutex
	shared      *sharedPrices // for simulations; nil: forgotten
	cached      bool          // among the units whose prices are kept

	pruned      string  // why no plan of it is worth a simulation
	bounds      bounds  // of the step
	capacity    int64   // of a rank; 0 is unlimited
	persistent  []int64 // by rank of a replica
	process     stages.ProcessMemory
	stageMemory []stageMemory // by stage
	counted     []bool        // by rank: whether its memory is followed
}

// price makes the unit of plans that are cut so.
func newStageGroup(cut *configs.Cut) *stageGroup {
	d := cut.Divide()
	var err error
	u := &stageGroup{cut: cut, capacity: d.Machine.RankMemory(), process: d.Workload.Process}
	for i := range d.Workload.Stages {
		u.tensors += 100 + len(d.Workload.Stages[i].Tensors)
	}
	u.persistent = slices.Clone(memory.Persistent(d.Workload, d.Shape.Ranks*max(1, d.Shape.Replicas))[:d.Shape.Ranks])
	if u.capacity > 0 && slices.Max(u.persistent) > u.capacity {
		u.pruned = Parameters
		return u
	}
	if u.stagePrices, err = newStagePrices(d); err != nil {
		return &stageGroup{pruned: Impossible}
	}
	if u.measureActivations() {
		u.pruned = Activations
	} else {
		u.bound()
	}
	u.shared, u.stagePrices = u.stagePrices.shared(), stagePrices{} // which take memory
	return u
}

// exchange prices what the devices of an expert group exchange in a forward of a stage, and
// in a backward.
func (u *stageGroup) exchange(stage int, microbatch int32) (forward, backward time.Duration) {
	if u.exchanges == nil {
		return 0, 0
	}
	rank, x := u.graph.Placement.Rank(int32(stage), microbatch), &u.exchanges[stage]
	for part, bytes := range slices.Concat(x.Forward, x.Backward) {
		busy := u.costs.Task(&graph.Task{
			Kind: graph.AllToAll, Part: uint16(part), Rank: rank, Stage: int32(stage), Microbatch: microbatch,
			Peer: u.graph.Experts.ExchangeGroup(0, rank, int32(u.Shape.Ranks)), Bytes: bytes * u.Workload.Samples[0],
		}).Busy
		if part < len(x.Forward) {
			forward += busy
		} else {
			backward += busy
		}
	}
	return forward, backward
}

// task prices a task of the first replica.
func (u *stageGroup) task(k graph.Kind, rank int32, stage int, microbatch int32) graph.Cost {
	return u.costs.Task(&graph.Task{Kind: k, Rank: rank, Stage: int32(stage), Microbatch: microbatch, Peer: graph.None})
}

// message prices what an action on a stage sends to the next one, or back to the one
// before: nothing on the same rank, and beyond the first and last.
func (u *stageGroup) message(k graph.Kind, stage, to int, microbatch int32) graph.Cost {
	at := u.graph.Placement
	if min(stage, to) < 0 || max(stage, to) == at.Stages() || at.Together(stage, to) {
		return graph.Cost{}
	}
	bytes := u.boundaries[min(stage, to)].Forward
	if k == graph.SendBackward {
		bytes = u.boundaries[min(stage, to)].Backward
	}
	return u.costs.Task(&graph.Task{
		Kind: k, Rank: at.Rank(int32(stage), microbatch), Peer: at.Rank(int32(to), microbatch),
		Stage: int32(stage), Microbatch: microbatch, Bytes: bytes * u.Workload.Samples[0],
	})
}
