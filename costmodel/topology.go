package costmodel

import (
	"cmp"
	"slices"

	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// tensor counts the devices of a tensor-parallel group.
func (m *Machine) tensor() int { return max(1, m.Tensor) }

// context counts the tensor-parallel groups of a rank.
func (m *Machine) context() int { return max(1, m.Context) }

// Devices counts the devices of a rank.
func (m *Machine) Devices() int { return m.tensor() * m.context() }

// first returns the number of a rank's first device, in the order of devices on the nodes.
func (m *Machine) first(rank int32) int {
	at := int(rank)
	if m.Stages > 1 && m.Replicas > 1 {
		at = at%m.Stages*m.Replicas + at/m.Stages
	}
	return at * m.Devices()
}

// Node returns the node of a rank's first device.
func (m *Machine) Node(rank int32) int32 { return m.nodeOf(m.first(rank)) }

func (m *Machine) nodeOf(device int) int32 {
	if m.DevicesPerNode == 0 {
		return 0
	}
	return int32(device / m.DevicesPerNode)
}

// siblings counts the groups of a rank that communicate from one node at the same time, if each has
// width of its devices.
func (m *Machine) siblings(width int) int {
	if m.DevicesPerNode == 0 {
		return m.Devices() / width
	}
	return min(m.Devices()/width, m.DevicesPerNode)
}

// A Path is the link that a message takes, and the queue that it waits in.
type Path struct {
	link.Link
	Queue   int32 // a number from 1; messages with the same number wait for each other
	Network bool  // the link is the network between nodes, through a card of the sender's node
}

// Between returns the path of a message between two ranks. The devices of a rank all send at once.
// If they share network cards or a node's link, each has its part of the bandwidth.
func (m *Machine) Between(from, to int32) Path {
	// Queues of different kinds have different numbers: 4k+1 for devices, 4k+2 for nodes, 4k+3 for
	// network cards, 4k+4 for links to hosts.
	if node := m.Node(from); node != m.Node(to) {
		nics := m.nics()
		card := int(node)*nics + m.first(from)%m.DevicesPerNode%nics
		cards := min(nics, m.siblings(1))
		return Path{m.Network.Share(float64(cards) / float64(m.siblings(1))), int32(4*card + 3), true}
	}
	if m.Link.Shared == "node" {
		return Path{m.Link.Share(1 / float64(m.siblings(1))), 4*m.Node(from) + 2, false}
	}
	return Path{m.Link, 4*from + 1, false}
}

// nics counts the network cards of a node that its devices can use.
func (m *Machine) nics() int { return min(max(1, m.NICsPerNode), max(1, m.DevicesPerNode)) }

// Group returns the link for collectives over a group of ranks, if no other group uses the network
// cards of its nodes at that time.
func (m *Machine) Group(ranks []int32) link.Link { return m.group(ranks, 1, nil) }

// group returns the link for collectives over width devices of each rank, while other groups
// communicate. load counts the devices that use the network cards of each node at that time,
// including those of the group and its siblings; nil means no others.
func (m *Machine) group(ranks []int32, width int, load []int) link.Link {
	return m.groupOn(m.perNode(ranks, width), len(ranks), width, load)
}

// groupOn returns the link of a group, given its devices on each node.
func (m *Machine) groupOn(nodes []onNode, ranks, width int, load []int) link.Link {
	n := ranks * width
	if len(nodes) < 2 {
		return m.Link
	}
	cards := m.cards(nodes, n/len(nodes), m.siblings(width), load)
	across := m.Network
	across.Collective = units.Rate(m.Network.BusBandwidth() * cards)
	across.NCCL, across.PATRank = m.Link.NCCL, m.Link.PATRank // one library
	if table := m.Network.Over(len(nodes), n, m.nics(), cards); table != nil {
		across.AllReduce, across.AllGather, across.ReduceScatter = table, nil, nil
		return across
	}
	if n == len(nodes) {
		return across.ShareTables(cards).Apart()
	}
	perNode := nodes[0].devices
	if slices.ContainsFunc(nodes, func(n onNode) bool { return n.devices != perNode }) {
		perNode = 0 // not equal
	}
	across = across.WithoutTables() // tables are for one rank on each node
	slow := across                  // for rings, some of whose steps stay inside a node
	slow.Collective = min(slow.Collective, units.Rate(m.Link.BusBandwidth()))
	slow.Latency = max(m.Link.Latency, m.Network.Latency)
	slow.Call = max(m.Link.Call, m.Network.Call)
	return slow.WithLevels(len(nodes), perNode, m.Link, across)
}

// cards returns the number of network cards of a node that a ring over a group has for itself: at
// most one for each of its devices there, and an equal part of all cards if its siblings (the rings
// of the other devices of its ranks) or other groups share them.
func (m *Machine) cards(nodes []onNode, perNode, siblings int, load []int) float64 {
	share := 1.0
	for _, n := range nodes {
		if load != nil {
			all := n.devices * siblings
			share = min(share, float64(all)/float64(max(all, load[n.node])))
		}
	}
	return min(float64(perNode), float64(m.nics())/float64(siblings)*share)
}

// groups finds the links for the collectives of every group. All groups over the replicas
// communicate at the same time, and so do all groups within a replica, for tied parameters.
func (m *Machine) groups(g *graph.Graph) []link.Link {
	type use struct {
		load []int  // devices by node
		seen []bool // by rank, since a rank may have two groups: for sums and for gathers
	}
	var uses [2]use // within a replica, and over the replicas
	useOf := func(ranks []int32) *use {
		if len(ranks) > 1 && int(ranks[0])/g.Shape.Ranks == int(ranks[len(ranks)-1])/g.Shape.Ranks {
			return &uses[0]
		}
		return &uses[1]
	}
	for i := range uses {
		uses[i] = use{make([]int, m.Nodes(g.Ranks())), make([]bool, g.Ranks())}
	}
	nodes := make([][]onNode, len(g.Groups))
	for k, ranks := range g.Groups {
		width := g.Width(int32(k))
		if nodes[k] = m.perNode(ranks, width); len(nodes[k]) < 2 {
			continue
		}
		u := useOf(ranks)
		for _, r := range ranks {
			if u.seen[r] {
				continue
			}
			u.seen[r] = true
			for i := range width {
				u.load[m.nodeOf(m.member(r, i, width))] += m.siblings(width)
			}
		}
	}
	groups := make([]link.Link, len(g.Groups))
	for k, ranks := range g.Groups {
		groups[k] = m.groupOn(nodes[k], len(ranks), g.Width(int32(k)), useOf(ranks).load)
	}
	return groups
}

// member returns the i-th of a rank's devices in a group that has width devices of each rank, spaced
// as far apart as possible.
func (m *Machine) member(rank int32, i, width int) int { return m.first(rank) + i*(m.Devices()/width) }

// onNode counts the devices of a group on one node.
type onNode struct {
	node    int32
	devices int
}

// perNode counts the devices of a group on each node, in the order of nodes. The group has width
// devices of each rank.
func (m *Machine) perNode(ranks []int32, width int) []onNode {
	var nodes []onNode
	most := int32(0)
	for i := range len(ranks) * width {
		node, at := m.nodeOf(m.member(ranks[i/width], i%width, width)), len(nodes)-1
		if at < 0 || nodes[at].node != node {
			nodes, at, most = append(nodes, onNode{node: node}), at+1, max(most, node)
		}
		nodes[at].devices++
	}
	if slices.IsSortedFunc(nodes, func(a, b onNode) int { return cmp.Compare(a.node, b.node) }) {
		return nodes
	}
	devices := make([]int, most+1) // by node
	for _, n := range nodes {
		devices[n.node] += n.devices
	}
	nodes = nodes[:0]
	for node, n := range devices {
		if n > 0 {
			nodes = append(nodes, onNode{int32(node), n})
		}
	}
	return nodes
}

// joins reports whether a group with width devices of each rank has devices on several nodes.
func (m *Machine) joins(ranks []int32, width int) bool {
	for i := range len(ranks) * width {
		if m.nodeOf(m.member(ranks[i/width], i%width, width)) != m.Node(ranks[0]) {
			return true
		}
	}
	return false
}

// period returns how many replicas are to be compared to find out whether all are alike (see
// graph.Costs). Replicas whose devices are at the same places of other nodes do the same on other
// links, so it suffices to compare replicas that fill whole nodes. It is 0 if not all replicas do.
func (m *Machine) period(g *graph.Graph) int {
	if m.DevicesPerNode == 0 {
		return 2 // all devices are on one node
	}
	apart := g.Shape.Ranks * m.Devices() // from a device of a replica to that of the next replica
	if m.Stages > 1 && m.Replicas > 1 {
		if apart = m.Devices(); m.Replicas*apart%m.DevicesPerNode != 0 {
			return 0 // neighbouring stages share nodes
		}
	}
	period := leastMultiple(m.DevicesPerNode, apart) / apart
	if g.Experts.Span > 0 {
		period = leastMultiple(period, int(g.Experts.Span))
	}
	if g.Sharing.Span > 0 {
		period = leastMultiple(period, int(g.Sharing.Span))
	}
	if g.Shape.Replicas%period != 0 {
		return 0
	}
	return period
}

// leastMultiple returns the least common multiple of two numbers.
func leastMultiple(a, b int) int {
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// Nodes returns the number of nodes that a number of ranks needs.
func (m *Machine) Nodes(ranks int) int {
	if ranks == 0 || m.DevicesPerNode == 0 {
		return min(1, ranks)
	}
	return (ranks*m.Devices() + m.DevicesPerNode - 1) / m.DevicesPerNode
}

// inner finds the link among the devices of a tensor-parallel group.
func (m *Machine) inner() link.Link {
	single := *m
	single.Tensor, single.Context = 1, m.tensor()
	return single.group([]int32{0}, m.tensor(), nil)
}
