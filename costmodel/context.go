package costmodel

import (
	"time"

	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/internal/units"
	"psim/schedules/graph"
)

// contexts holds the links of a context group: the devices of a rank that have different parts
// of the same sequences, one of each tensor-parallel group.
type contexts struct {
	parts    int           // devices of the group
	together link.Link     // for collectives
	next     link.Link     // from each device to the next, for rings of keys and values
	swap     link.AllToAll // for all-to-alls
	inside   int           // other devices of the group in the same node
}

// contexts finds these links. All tensor-parallel groups of a rank exchange at the same time.
func (m *Machine) contexts() contexts {
	rank := []int32{0}
	nodes := m.perNode(rank, m.context())
	c := contexts{
		parts: m.context(), together: m.group(rank, m.context(), nil), next: m.Link,
		inside: m.context()/len(nodes) - 1,
	}
	if m.Link.Shared == "node" {
		c.next = m.Link.Share(1 / float64(m.siblings(1)))
	}
	if len(nodes) > 1 { // one device of every tensor-parallel group sends to another node
		siblings := m.siblings(m.context())
		c.next = m.Network.Share(float64(min(m.nics(), siblings)) / float64(siblings))
	}
	across := m.Network.Share(min(1, float64(m.nics())/float64(m.siblings(1))))
	c.swap = link.AllToAll{Peers: c.inside, Within: m.Link, Across: across}
	return c
}

// transpose returns the time of an all-to-all of the given number of bytes per device.
func (c contexts) transpose(bytes int64) time.Duration {
	each := float64(bytes) / float64(c.parts)
	return c.swap.Time(each*float64(c.inside), each*float64(c.parts-1-c.inside))
}

// ring returns the exchanges of a pass of attention whose keys and values go around the context
// group, given the time of its computation. A block begins when its keys and values have arrived,
// and all blocks take the same time.
func (c *Compute) ring(o network.Op, p network.Pass, samples int64, computing time.Duration) graph.Inner {
	var x graph.Within
	for i := range o.Blocks {
		bytes := o.PassedOn(p, i) * samples * int64(c.element)
		if bytes == 0 {
			continue
		}
		took := units.Sum(c.contexts.next.Transfer(bytes), time.Duration(c.contexts.next.Latency))
		exposed := max(0, took-computing/time.Duration(o.Blocks))
		x = x.Plus(graph.Within{Communication: took, Exposed: exposed, SentBytes: bytes})
	}
	return graph.Inner{Within: x, Context: x}
}
