package stages

import (
	"slices"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/schedules/graph"
)

// An Exchange is an all-to-all of an expert group within a pass of a stage, which it
// parts in two.
type Exchange struct {
	Layer int   // of the stage
	Bytes int64 // that a device sends to others, per sample
}

// Exchanges lists the all-to-alls of a pass of a stage, F, B or I, in the order in which
// it comes to them; W has none.
func (staged *Staged) Exchanges(stage int, k graph.Kind) []Exchange {
	switch k {
	case graph.Forward:
		return staged.Stages[stage].there
	case graph.WeightGradient:
		return nil
	}
	return staged.Stages[stage].back
}

// PartsOf is the number of parts into which a pass of a stage is cut when all of it is: at
// its all-to-alls, or else where gradients leave or parameters come.
func (staged *Staged) PartsOf(stage int, k graph.Kind) int {
	st := &staged.Stages[stage]
	switch exchanges := len(staged.Exchanges(stage, graph.Forward)); {
	case exchanges > 0 && k == graph.Forward:
		return exchanges + 1
	case exchanges > 0:
		return len(staged.Exchanges(stage, k)) + 1
	case k == graph.Forward:
		return max(1, len(st.Ahead))
	}
	return staged.Parts(st)
}

func (staged *Staged) exchanges(layers []network.Layer, k graph.Kind) []Exchange {
	if !staged.Network.Group.Dispatches() {
		return nil
	}
	var list []Exchange
	if k == graph.Forward {
		for i, l := range layers {
			list = staged.exchanged(list, i, slices.Values(l.Ops), network.Forward)
		}
		return list
	}
	for i, l := range slices.Backward(layers) {
		again := staged.Training.RepeatedBefore(layers, i)
		for k, r := range again {
			list = staged.exchanged(list, i+1-len(again)+k, slices.Values(staged.Training.Repeated(r)), network.Forward)
		}
		list = staged.exchanged(list, i, reversed(l.Ops), network.InputGradient)
	}
	return list
}

func reversed(ops []network.Op) func(func(network.Op) bool) {
	return func(yield func(network.Op) bool) {
		for _, o := range slices.Backward(ops) {
			if !yield(o) {
				return
			}
		}
	}
}

// exchanged appends the all-to-alls among one pass of operations.
func (staged *Staged) exchanged(list []Exchange, layer int, ops func(func(network.Op) bool), pass network.Pass) []Exchange {
	for o := range ops {
		if o.Exchanges[pass].Collective == group.AllToAll {
			whole := o.Exchanges[pass].Bytes(staged.Training.ActivationElement(), 1)
			list = append(list, Exchange{layer, staged.Network.SentToExperts(whole)})
		}
	}
	return list
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
