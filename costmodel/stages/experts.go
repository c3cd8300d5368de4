package stages

import (
	"psim/costmodel/network"
	"psim/schedules/wiring"
)

// dispatched reports whether a tensor is of experts that are not on the devices that have
// the rest of their layer.
func (staged *Staged) dispatched(t network.Tensor) bool {
	return t.Expert && staged.Network.Group.Dispatches()
}

// sumsGradients reports whether several devices hold the same parameters, or the same experts.
func (staged *Staged) sumsGradients() bool {
	return staged.holders() > 1 || staged.Network.Group.Dispatches() && staged.expertReplicas() > 1
}

// expertGroup tells over how many replicas an expert group is, and how many devices of each
// of their ranks exchange tokens: of those that divide an expert, one.
func (staged *Staged) expertSpan() (span, width int) {
	g := staged.Network.Group
	return max(1, g.ExpertDevices()/g.All()), min(max(1, g.Expert), max(1, g.All()*max(1, g.Expert)/g.ExpertDevices()))
}

// A gathering is what is gathered together: of experts on other devices apart, and last.
type gatheredBytes struct {
	bytes  int64
	expert bool
}

// gathers lists what is gathered for a piece.
func (p Piece) collectives() (list []gatheredBytes) {
	if p.Experts == 0 || p.Experts < p.Bytes {
		list = append(list, gatheredBytes{bytes: p.Bytes - p.Experts})
	}
	if p.Experts > 0 {
		list = append(list, gatheredBytes{p.Experts, true})
	}
	return list
}

// syncExperts tells experts apart in what the replicas sum and gather.
func (staged *Staged) syncExperts(sync *wiring.Sync) {
	sync.ExpertWidth = max(1, staged.Network.Group.All()/staged.Network.Group.ExpertDevices())
	sync.Experts = make([][]bool, len(staged.Stages))
	for s := range staged.Stages {
		st := &staged.Stages[s]
		for _, b := range st.Buckets {
			sync.Experts[s] = append(sync.Experts[s], b.Experts)
		}
		experts := staged.updatedBytes(st.Experts, st.NarrowExperts)
		sync.Parameters[s] -= experts
		sync.ExpertParameters = append(sync.ExpertParameters, experts)
		if sync.Ahead == nil {
			continue
		}
		sync.Ahead[s], sync.AheadExperts = nil, append(sync.AheadExperts, nil)
		for _, piece := range st.Ahead {
			for _, g := range piece.collectives() {
				sync.Ahead[s], sync.AheadExperts[s] = append(sync.Ahead[s], g.bytes), append(sync.AheadExperts[s], g.expert)
			}
		}
	}
}

// expertReplicas counts the devices that have the same experts, over which their gradients
// are summed.
func (staged *Staged) expertReplicas() int {
	g := staged.Network.Group
	return max(1, g.All()*staged.replicas()/g.ExpertDevices())
}

// ShareOf is what a device holds of so many bytes for every parameter of a stage that are
// sharded from a ZeRO stage on: of experts over the devices that have the same ones, and
// of all else over the replicas. Each share is rounded up.
func (staged *Staged) ShareOf(s *Stage, perParameter int64, from int) int64 {
	if staged.Zero < from || !staged.Network.Group.Dispatches() {
		return staged.Share(s.Stored*perParameter, from)
	}
	shards := int64(staged.expertReplicas())
	return staged.Share((s.Stored-s.Experts)*perParameter, from) + roundUp(s.Experts*perParameter, shards)/shards
}
