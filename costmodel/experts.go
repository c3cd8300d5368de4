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

// cutAtAllToAlls cuts a pass of a stage at its all-to-alls. It cuts W where I has them.
func (s *slicer) cutAtAllToAlls() {
	layers := s.staged.Stages[s.stage].Layers
	if s.kind == graph.Forward {
		s.done = units.Sum(s.received(s.stage, s.stage-1, s.samples).Exposed, s.copies(s.stage))
		for _, l := range layers {
			s.walker.prepare()
			s.forwards(l, func(l network.Layer) []network.Op { return l.Ops })
		}
		s.end()
		return
	}
	if s.kind != graph.WeightGradient {
		s.done = units.Sum(s.received(s.stage, s.stage+1, s.samples).Exposed, s.copies(s.stage))
	}
	for _, l := range slices.Backward(layers) {
		s.forwards(l, s.training().Repeated)
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

// forwards goes through the forward of some operations of a layer. A pass always selects them
// in the same way, so that layers with the same operations share their times.
func (s *slicer) forwards(l network.Layer, selected func(network.Layer) []network.Op) {
	if !l.Shares(s.again) {
		s.again, s.againOps, s.againFor = l, selected(l), nil
		for _, o := range s.againOps {
			s.againFor = append(s.againFor, s.compute.Op(o, network.Forward, s.samples))
		}
	}
	for i := range s.againOps {
		if s.kind != graph.WeightGradient { // W repeats nothing
			s.done = units.Sum(s.done, s.againFor[i])
			s.walker.operations(s.againOps[i:i+1], network.Forward)
		}
		if s.againOps[i].Exchanges[network.Forward].Collective == group.AllToAll {
			s.end()
		}
	}
}

// An allToAll is the network that the all-to-alls of an expert group use. inside and between
// are the bytes that a device sends to others of its node and to other nodes, as fractions of
// the bytes of the task.
type allToAll struct {
	link.AllToAll
	inside, between float64
}

func (a allToAll) time(bytes int64) time.Duration {
	return a.Time(a.inside*float64(bytes), a.between*float64(bytes))
}

// allToAlls lists the networks of all-to-alls by group of a graph.
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

// allToAll finds the network that the all-to-alls of an expert group on the given ranks use. All
// devices of its nodes are assumed to exchange at the same time, each through at most one
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

// deepEPShare is the share of the rates of link and network that DeepEP's kernels reach. It is
// fitted to half of its authors' measurements (published table deepep).
const deepEPShare = 0.87

// ncclShare is the share of the network's rate that NCCL's all-to-all reaches among nodes, for a
// network without a rate of its own for all-to-alls. It is fitted to the plan
// of Qwen3-235B on H100 that the published table megatron-bridge marks as used.
const ncclShare = 0.69

// exchangers counts the devices of some ranks that exchange tokens in an expert group, and the
// most of them that are in one node.
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
