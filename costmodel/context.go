package costmodel

import (
	"time"

	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/internal/units"
	"psim/schedules/graph"
)

// contexts holds what the devices of a rank that have parts of the same sequences exchange
// through: as many as there are parts, one of each tensor-parallel group.
type contexts struct {
	parts    int
	together link.Link // collectives
	next     link.Link // what goes round, from each to the next
	swap     link.AllToAll
	inside   int // of the others, those in the same node
}

// contexts finds them. All tensor-parallel groups of a rank exchange at the same time.
func (m *Machine) contexts() contexts {
	rank := []int32{0}
	nodes := m.perNode(rank, m.context())
	c := contexts{parts: m.context(), together: m.group(rank, m.context(), nil), next: m.Link, inside: m.context()/len(nodes) - 1}
	if m.Link.Shared == "node" {
		c.next = m.Link.Share(1 / float64(m.siblings(1)))
	}
	if len(nodes) > 1 { // a device of every tensor-parallel group has its next in another node
		siblings := m.siblings(m.context())
		c.next = m.Network.Share(float64(min(m.nics(), siblings)) / float64(siblings))
	}
	c.swap = link.AllToAll{Peers: c.inside, Within: m.Link, Across: m.Network.Share(min(1, float64(m.nics())/float64(m.siblings(1))))}
	return c
}

// transpose returns the time of an all-to-all in which every device has so many bytes.
func (c contexts) transpose(bytes int64) time.Duration {
	each := float64(bytes) / float64(c.parts)
	return c.swap.Time(each*float64(c.inside), each*float64(c.parts-1-c.inside))
}

// ring returns what a pass of attention exchanges whose keys and values go round, given what
// it computes: every block begins when those for it have come, and takes its equal part.
func (c Compute) ring(o network.Op, p network.Pass, samples int64, computing time.Duration) graph.Inner {
	var x graph.Within
	for i := range o.Blocks {
		bytes := o.PassedOn(p, i) * samples * int64(c.element)
		if bytes == 0 {
			continue
		}
		took := units.Sum(c.contexts.next.Transfer(bytes), time.Duration(c.contexts.next.Latency))
		x = x.Plus(graph.Within{Communication: took, Exposed: max(0, took-computing/time.Duration(o.Blocks)), SentBytes: bytes})
	}
	return graph.Inner{Within: x, Context: x}
}
