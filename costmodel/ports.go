package costmodel

import "psim/schedules/graph"

// ports returns the ports of a graph's messages and collectives. A collective uses both directions of
// the slower link of its group, the network if it is on several nodes, equally: a device of a ring
// sends as much as it receives. On a link that nodes share through their memory both directions
// are one.
func (m *Machine) ports(g *graph.Graph) *graph.Ports {
	p := &graph.Ports{Message: func(t *graph.Task) [2]int32 {
		out, in := m.port(t.Rank, m.Node(t.Rank) != m.Node(t.Peer)), m.port(t.Peer, m.Node(t.Rank) != m.Node(t.Peer))
		return [2]int32{out[0], in[1]}
	}}
	for k, ranks := range g.Groups {
		var list []int32
		network := m.joins(ranks, g.Width(int32(k)))
		for _, r := range ranks[:g.Arriving(int32(k))] {
			both := m.port(r, network)
			if list = append(list, both[0]); both[1] != both[0] {
				list = append(list, both[1])
			}
		}
		p.Groups = append(p.Groups, list)
	}
	return p
}

// port returns the ports of a rank by which its devices send and receive.
func (m *Machine) port(rank int32, network bool) [2]int32 {
	first := rank * graph.PortsOfRank
	switch {
	case network:
		return [2]int32{first + 2, first + 3}
	case m.Link.Shared == "node":
		return [2]int32{first, first}
	}
	return [2]int32{first, first + 1}
}
