package stages

import (
	"slices"

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
func (p *Plan) Exchanges(stage int, k graph.Kind) []Exchange {
	switch k {
	case graph.Forward:
		return p.Stages[stage].there
	case graph.WeightGradient:
		return nil
	}
	return p.Stages[stage].back
}

// PartsOf is the number of parts into which a pass of a stage is cut when all of it is: at
// its all-to-alls, or else where gradients leave or parameters come.
func (p *Plan) PartsOf(stage int, k graph.Kind) int {
	st := &p.Stages[stage]
	switch exchanges := len(p.Exchanges(stage, graph.Forward)); {
	case exchanges > 0 && k == graph.Forward:
		return exchanges + 1
	case exchanges > 0:
		return len(p.Exchanges(stage, k)) + 1
	case k == graph.Forward:
		return max(1, len(st.Ahead))
	}
	return p.Parts(st)
}

func (p *Plan) exchanges(layers []network.Layer, k graph.Kind) []Exchange {
	if !p.Network.Group.Dispatches() {
		return nil
	}
	var list []Exchange
	if k == graph.Forward {
		for i, l := range layers {
			list = p.exchanged(list, i, slices.Values(l.Ops), network.Forward)
		}
		return list
	}
	for i, l := range slices.Backward(layers) {
		again := p.Training.Repeating(layers, i)
		for k, r := range again {
			list = p.exchanged(list, i+1-len(again)+k, slices.Values(p.Training.Repeated(r)), network.Forward)
		}
		list = p.exchanged(list, i, reversed(l.Ops), network.InputGradient)
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
func (p *Plan) exchanged(list []Exchange, layer int, ops func(func(network.Op) bool), pass network.Pass) []Exchange {
	for o := range ops {
		if o.Exchanges[pass].Collective == network.AllToAll {
			whole := o.Exchanges[pass].Bytes(p.Training.ActivationElement(), 1)
			list = append(list, Exchange{layer, p.Network.SentToExperts(whole)})
		}
	}
	return list
}

// expertReplicas counts the devices that have the same experts, over which their gradients
// are summed.
func (p *Plan) expertReplicas() int {
	g := p.Network.Group
	return max(1, g.All()*p.replicas()/g.ExpertDevices())
}

// ShareOf is what a device holds of so many bytes for every parameter of a stage that are
// sharded from a ZeRO stage on: of experts over the devices that have the same ones, and
// of all else over the replicas. Each share is rounded up.
func (p *Plan) ShareOf(s *Stage, perParameter int64, from int) int64 {
	if p.Zero < from || !p.Network.Group.Dispatches() {
		return p.Share(s.Stored*perParameter, from)
	}
	shards := int64(p.expertReplicas())
	return p.Share((s.Stored-s.Experts)*perParameter, from) + roundUp(s.Experts*perParameter, shards)/shards
}
