package costmodel

import (
	"cmp"
	"slices"

	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// tensor counts the devices of a rank.
func (m *Machine) tensor() int { return max(1, m.Tensor) }

// first numbers a rank's first device as it lies on the nodes.
func (m *Machine) first(rank int32) int {
	at := int(rank)
	if m.Stages > 1 && m.Replicas > 1 {
		at = at%m.Stages*m.Replicas + at/m.Stages
	}
	return at * m.tensor()
}

// Node returns the node of a rank's first device.
func (m *Machine) Node(rank int32) int32 {
	if m.DevicesPerNode == 0 {
		return 0
	}
	return int32(m.first(rank) / m.DevicesPerNode)
}

// siblings counts how many devices of a rank are in one node and communicate at the
// same time, each with its peer.
func (m *Machine) siblings() int {
	if m.DevicesPerNode == 0 {
		return m.tensor()
	}
	return min(m.tensor(), m.DevicesPerNode)
}

// Between is the link that a message between two ranks takes, and the queue
// it shares with others: a number from 1 that is the same for transfers that
// wait for each other. The devices of a rank all send at once: where they share
// cards or a node, each has its part of the bandwidth.
func (m *Machine) Between(from, to int32) (link.Link, int32) {
	// Queues are numbered so that the kinds do not meet: 3k+1 for devices,
	// 3k+2 for nodes, 3k+3 for network cards.
	if node := m.Node(from); node != m.Node(to) {
		nics := m.nics()
		card := int(node)*nics + m.first(from)%m.DevicesPerNode%nics
		cards := min(nics, m.siblings())
		return m.Network.Share(float64(cards) / float64(m.siblings())), int32(3*card + 3)
	}
	if m.Link.Shared == "node" {
		return m.Link.Share(1 / float64(m.siblings())), 3*m.Node(from) + 2
	}
	return m.Link, 3*from + 1
}

// nics counts the network cards of a node, as many of them as its devices can use.
func (m *Machine) nics() int { return min(max(1, m.NICsPerNode), max(1, m.DevicesPerNode)) }

// Group is what collectives over a group of ranks go through, where no other group
// uses the cards of its nodes.
func (m *Machine) Group(ranks []int32) link.Link { return m.group(ranks, nil) }

// group finds the same where others communicate at that time: load counts, by node, the
// ranks that use its cards then, those of the group included.
func (m *Machine) group(ranks []int32, load []int) link.Link {
	nodes := m.perNode(ranks)
	if len(nodes) < 2 {
		return m.Link
	}
	cards := m.cards(nodes, len(ranks)/len(nodes), load)
	across := m.Network
	across.Collective = units.Rate(m.Network.BusBandwidth() * cards)
	if table := m.Network.Over(len(nodes), len(ranks), m.nics(), cards); table != nil {
		across.AllReduce, across.AllGather, across.ReduceScatter = table, nil, nil
		return across
	}
	if len(ranks) == len(nodes) {
		return across.ShareTables(cards)
	}
	perNode := nodes[0].ranks
	if slices.ContainsFunc(nodes, func(n onNode) bool { return n.ranks != perNode }) {
		perNode = 0 // not equal
	}
	across = across.WithoutTables() // which are for one rank on each node
	slow := across                  // some steps stay inside a node
	slow.Collective = min(slow.Collective, units.Rate(m.Link.BusBandwidth()))
	slow.Latency = max(m.Link.Latency, m.Network.Latency)
	slow.Call = max(m.Link.Call, m.Network.Call)
	return slow.WithLevels(len(nodes), perNode, m.Link, across)
}

// cards counts the network cards of a node that a ring over a group has for itself: as
// many as it has ranks there at most, and an equal part of all where the devices of
// these ranks, each with a ring of its own, or other groups share them.
func (m *Machine) cards(nodes []onNode, perNode int, load []int) float64 {
	share := 1.0
	for _, n := range nodes {
		if load != nil {
			share = min(share, float64(n.ranks)/float64(max(n.ranks, load[n.node])))
		}
	}
	return min(float64(perNode), float64(m.nics())/float64(m.siblings())*share)
}

// groups finds what the collectives of every group go through. Groups over the replicas
// communicate at the same time, and so do those within one, for tied parameters.
func (m *Machine) groups(g *graph.Graph) []link.Link {
	type use struct {
		load []int  // by node
		seen []bool // by rank, which may have two groups: for sums and for gathers
	}
	var uses [2]use
	of := func(ranks []int32) *use {
		if int(ranks[0])/g.Shape.Ranks == int(ranks[len(ranks)-1])/g.Shape.Ranks {
			return &uses[0]
		}
		return &uses[1]
	}
	for i := range uses {
		uses[i] = use{make([]int, m.Nodes(g.Ranks())), make([]bool, g.Ranks())}
	}
	for _, ranks := range g.Groups {
		if len(m.perNode(ranks)) < 2 {
			continue
		}
		for u, i := of(ranks), 0; i < len(ranks); i++ {
			if r := ranks[i]; !u.seen[r] {
				u.seen[r] = true
				u.load[m.Node(r)]++
			}
		}
	}
	var groups []link.Link
	for _, ranks := range g.Groups {
		groups = append(groups, m.group(ranks, of(ranks).load))
	}
	return groups
}

// onNode counts the ranks of a group on one node.
type onNode struct {
	node  int32
	ranks int
}

// perNode counts the ranks of a group on its nodes, by node.
func (m *Machine) perNode(ranks []int32) []onNode {
	var nodes []onNode
	for _, r := range ranks {
		node, at := m.Node(r), len(nodes)-1
		if at < 0 || nodes[at].node != node {
			var known bool
			at, known = slices.BinarySearchFunc(nodes, node, func(n onNode, node int32) int { return cmp.Compare(n.node, node) })
			if !known {
				nodes = slices.Insert(nodes, at, onNode{node: node})
			}
		}
		nodes[at].ranks++
	}
	return nodes
}

// Nodes is the number of nodes that a number of ranks takes.
func (m *Machine) Nodes(ranks int) int {
	if ranks == 0 || m.DevicesPerNode == 0 {
		return min(1, ranks)
	}
	return (ranks*m.tensor() + m.DevicesPerNode - 1) / m.DevicesPerNode
}

// inner finds what the devices of one rank exchange through.
func (m *Machine) inner() link.Link {
	single := *m
	single.Tensor, single.Stages = 1, 0
	devices := make([]int32, m.tensor())
	for i := range devices {
		devices[i] = int32(i)
	}
	return single.Group(devices)
}
