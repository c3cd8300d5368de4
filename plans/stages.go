package plans

import (
	"slices"
	"sync"
	"time"

	"psim/costmodel/memory"
	"psim/costmodel/stages"
	"psim/schedules/graph"
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
	counted    []bool        // by rank: whether its activations are counted
}

// newStageGroup makes the group of the plans that cut the network as one of them does, and bounds them.
func newStageGroup(p *Plan) *stageGroup {
	cut, err := p.cut()
	if err != nil {
		return &stageGroup{pruned: Impossible}
	}
	d := cut.Divide()
	g := &stageGroup{plan: p, capacity: d.Machine.RankMemory(), process: d.Workload.Process}
	for i := range d.Workload.Stages {
		g.tensors += 100 + len(d.Workload.Stages[i].Tensors)
	}
	g.persistent = memory.Lasting(d.Workload, d.Shape.Ranks)
	if g.capacity > 0 && slices.Max(g.persistent) > g.capacity {
		g.pruned = Parameters
		return g
	}
	g.stagePrices = newStagePrices(d)
	switch {
	case g.measureActivations():
		g.pruned = Activations
	case g.price() != nil:
		return &stageGroup{pruned: Impossible}
	default:
		g.bound()
		g.shared = g.stagePrices.shared()
	}
	g.stagePrices = nil // free the memory of the rest
	return g
}

// exchange prices the all-to-alls of an expert group in the forward of a stage, and in its
// backward.
func (g *stageGroup) exchange(stage int, microbatch int32) (forward, backward time.Duration) {
	if g.exchanges == nil {
		return 0, 0
	}
	rank, x := g.graph.Placement.Rank(int32(stage), microbatch), &g.exchanges[stage]
	for part, bytes := range slices.Concat(x.Forward, x.Backward) {
		busy := g.costs(&graph.Task{
			Kind: graph.AllToAll, Part: uint16(part), Rank: rank, Stage: int32(stage), Microbatch: microbatch,
			Peer: g.graph.Experts.ExchangeGroup(0, rank, int32(g.Shape.Ranks)), Bytes: bytes * g.Workload.Samples[0],
		}).Busy
		if part < len(x.Forward) {
			forward += busy
		} else {
			backward += busy
		}
	}
	return forward, backward
}

// task prices a compute task of the first replica.
func (g *stageGroup) task(k graph.Kind, rank int32, stage int, microbatch int32) graph.Cost {
	t := computeTask(k, rank, stage, microbatch)
	return g.costs(&t)
}

func computeTask(k graph.Kind, rank int32, stage int, microbatch int32) graph.Task {
	return graph.Task{Kind: k, Rank: rank, Stage: int32(stage), Microbatch: microbatch, Peer: graph.None}
}

// message prices the message of a stage to the next stage, or back to the one before. It
// costs nothing within a rank, before the first stage and after the last.
func (g *stageGroup) message(k graph.Kind, stage, to int, microbatch int32) graph.Cost {
	t, sent := g.messageTask(k, stage, to, microbatch)
	if !sent {
		return graph.Cost{}
	}
	return g.costs(&t)
}

// messageTask returns that message, and false where there is none.
func (g *stageGroup) messageTask(k graph.Kind, stage, to int, microbatch int32) (t graph.Task, sent bool) {
	at := g.graph.Placement
	if min(stage, to) < 0 || max(stage, to) == at.Stages() || at.Together(stage, to) {
		return t, false
	}
	bytes := g.boundaries[min(stage, to)].Forward
	if k == graph.SendBackward {
		bytes = g.boundaries[min(stage, to)].Backward
	}
	return graph.Task{
		Kind: k, Rank: at.Rank(int32(stage), microbatch), Peer: at.Rank(int32(to), microbatch),
		Stage: int32(stage), Microbatch: microbatch, Bytes: bytes * g.Workload.Samples[0],
	}, true
}
