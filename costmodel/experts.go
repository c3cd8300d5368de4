package costmodel

import (
	"slices"
	"time"

	"psim/costmodel/group"
	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/internal/units"
	"psim/schedules/graph"
)

// exchanged cuts a pass of a stage at its all-to-alls, and W where I has them.
func (s *slicer) exchanged(staged *stages.Staged, stage int) {
	layers := staged.Stages[stage].Layers
	if s.kind == graph.Forward {
		s.done = received(s.compute, staged, stage, stage-1, s.samples).Exposed
		for _, l := range layers {
			s.walker.prepare()
			s.forwards(l, func(l network.Layer) []network.Op { return l.Ops })
		}
		s.end()
		return
	}
	if s.kind != graph.WeightGradient {
		s.done = received(s.compute, staged, stage, stage+1, s.samples).Exposed
	}
	for _, l := range slices.Backward(layers) {
		s.forwards(l, s.training.Repeated)
		s.walker.prepare()
		s.know(l, nil)
		for i, ops := range s.steps {
			s.done = units.Sum(s.done, s.took[i])
			s.walker.follow(&s.hosts[i])
			if ops[0].Exchanges[network.InputGradient].Collective == group.AllToAll {
				s.end()
			}
		}
	}
	s.end()
}

// forwards goes through the forward of some operations of a layer, the same of all layers.
func (s *slicer) forwards(l network.Layer, of func(network.Layer) []network.Op) {
	if !l.Shares(s.repeated) {
		s.repeated, s.again, s.anew = l, of(l), nil
		for _, o := range s.again {
			s.anew = append(s.anew, s.compute.Op(o, network.Forward, s.samples))
		}
	}
	for i := range s.again {
		if s.kind != graph.WeightGradient { // which repeats nothing
			s.done = units.Sum(s.done, s.anew[i])
			s.walker.operations(s.again[i:i+1], network.Forward)
		}
		if s.again[i].Exchanges[network.Forward].Collective == group.AllToAll {
			s.end()
		}
	}
}

// An allToAll is what the all-to-alls of an expert group go through. inside and between are
// the bytes that a device sends to others of its node and to other nodes, over those that
// a task says it sends.
type allToAll struct {
	link.AllToAll
	inside, between float64
}

func (a allToAll) time(bytes int64) time.Duration {
	return a.Time(a.inside*float64(bytes), a.between*float64(bytes))
}

// allToAlls finds them by group of a graph.
func (m *Machine) allToAlls(staged *stages.Staged, g *graph.Graph) []allToAll {
	if g.Experts.Span == 0 {
		return nil
	}
	list := make([]allToAll, len(g.Groups))
	first := int(g.Experts.Exchange)
	for i := range g.Ranks() / int(g.Experts.Span) {
		list[first+i] = m.allToAll(g.Groups[first+i], staged.Network)
	}
	return list
}

// allToAll finds what the all-to-alls of an expert group go through, which is in some ranks.
// All devices of its nodes are taken to exchange at the same time; none has more than one
// network card (NVIDIA/nccl-tests, issue 267).
func (m *Machine) allToAll(ranks []int32, n network.Network) allToAll {
	members, perNode := m.exchangers(ranks, n.Group)
	others := float64(members - 1)
	a := allToAll{
		AllToAll: link.AllToAll{Peers: perNode - 1, Within: m.Link, Across: m.Network},
		inside:   float64(perNode-1) / others, between: float64(members-perNode) / others,
	}
	if m.DevicesPerNode > 0 {
		a.Across = m.Network.Share(min(1, float64(m.nics())/float64(m.DevicesPerNode)))
	}
	if !n.Group.DeepEP && m.Network.AllToAll == 0 {
		a.between /= ncclShare
	}
	if n.Group.DeepEP {
		nodes := (members + perNode - 1) / perNode
		sent := n.Routing.Reached(members) * others / float64(members) * deepEPShare
		a.inside = n.Routing.Reached(members) * float64(perNode-1) / float64(perNode) / sent
		a.between = n.Routing.Reached(nodes) * float64(nodes-1) / float64(nodes) / sent
	}
	return a
}

// deepEPShare counts how much of the rates of link and network DeepEP's kernels reach: fitted
// to half of what its authors measured (published, table deepep).
const deepEPShare = 0.87

// ncclShare counts how much of the network's rate NCCL's all-to-all reaches among nodes, where the
// network has no rate for it: fitted to the plan of Qwen3-235B on H100 that the table megatron-bridge marks as used.
const ncclShare = 0.69

// exchangers counts the devices of some ranks among which an expert group exchanges tokens,
// and those of them that are in one node.
func (m *Machine) exchangers(ranks []int32, g group.Group) (members, perNode int) {
	apart := g.ExpertDevices() / max(1, g.Expert)
	on := map[int]int{}
	for _, r := range ranks {
		for k := 0; k < min(m.Devices(), g.ExpertDevices()); k += apart {
			node := 0
			if m.DevicesPerNode > 0 {
				node = (m.first(r) + k) / m.DevicesPerNode
			}
			on[node]++
			members, perNode = members+1, max(perNode, on[node])
		}
	}
	return members, perNode
}
