package stages

import (
	"psim/costmodel/network"
	"psim/schedules/wiring"
)

// dispatched reports whether a tensor belongs to an expert that is divided differently from the
// rest of its layer.
func (staged *Staged) dispatched(t network.Tensor) bool {
	return t.Expert && staged.Network.Group.Dispatches()
}

// sumsGradients reports whether several devices hold the same parameters or the same experts.
func (staged *Staged) sumsGradients() bool {
	return staged.holders() > 1 || staged.Network.Group.Dispatches() && staged.expertReplicas() > 1
}

// expertSpan returns the number of replicas over which an expert group extends, and the number
// of devices of each rank that exchange tokens: one for each share of the experts.
func (staged *Staged) expertSpan() (replicas, width int) {
	g := staged.Network.Group
	shares := g.All() * g.ExpertParts() / g.ExpertDevices()
	return max(1, g.ExpertDevices()/g.All()), min(g.ExpertParts(), max(1, shares))
}

// expertReplicas counts the devices that hold the same experts, and sum their gradients.
func (staged *Staged) expertReplicas() int {
	g := staged.Network.Group
	return max(1, g.All()*staged.replicas()/g.ExpertDevices())
}

// ShareOf returns the bytes that a device holds of a state that takes perParameter bytes and is
// sharded from a ZeRO stage on: experts over the devices that hold the same ones, everything
// else over the replicas. Each share is rounded up.
func (staged *Staged) ShareOf(s *Stage, perParameter int64, from int) int64 {
	switch {
	case staged.Zero < from || !staged.Network.Group.Dispatches():
		return staged.Share(s.Stored*perParameter, from)
	case staged.Gathers():
		return staged.shareOfFlats(s, func(f *Flat) int64 { return f.Stored * perParameter })
	}
	shards := int64(staged.expertReplicas())
	experts := roundUp(s.Experts*perParameter, shards) / shards
	return staged.Share((s.Stored-s.Experts)*perParameter, from) + experts
}

// gatheredBytes is the size of one collective that gathers parameters.
type gatheredBytes struct {
	bytes   int64
	experts bool
}

// collectives lists the collectives that gather a piece. Experts on other devices have one of
// their own, the last.
func (p Piece) collectives() (list []gatheredBytes) {
	if p.Experts == 0 || p.Experts < p.Bytes {
		list = append(list, gatheredBytes{bytes: p.Bytes - p.Experts})
	}
	if p.Experts > 0 {
		list = append(list, gatheredBytes{p.Experts, true})
	}
	return list
}

// syncExperts separates the experts from everything else that the replicas sum and gather.
func (staged *Staged) syncExperts(sync *wiring.Sync) {
	sync.ExpertWidth = max(1, staged.Network.Group.All()/staged.Network.Group.ExpertDevices())
	sync.Experts = make([][]bool, len(staged.Stages))
	for s := range staged.Stages {
		if sync.Units != nil {
			for _, flats := range staged.GatheredFlats(s) {
				sync.Experts[s] = append(sync.Experts[s], flats[0].Experts)
			}
			continue
		}
		st := &staged.Stages[s]
		for _, b := range st.Buckets {
			sync.Experts[s] = append(sync.Experts[s], b.Experts)
		}
		if sync.Ahead == nil {
			continue
		}
		var bytes []int64
		var isExperts []bool
		for _, piece := range st.Ahead {
			for _, c := range piece.collectives() {
				bytes, isExperts = append(bytes, c.bytes), append(isExperts, c.experts)
			}
		}
		sync.Ahead[s], sync.AheadExperts = bytes, append(sync.AheadExperts, isExperts)
	}
}
