package link

import (
	"math"
	"math/bits"
	"time"

	"psim/internal/units"
	"psim/schedules/graph"
)

// The algorithms of collectives that a link may name. Auto is the faster of those that
// NCCL has everywhere, ring and tree; halving-doubling is MPI's and Gloo's, the one in
// two levels Horovod's, and they are taken only by name.
const (
	Auto            = "auto"
	RingAlgorithm   = "ring"
	TreeAlgorithm   = "tree"
	HalvingDoubling = "halving-doubling"
	Hierarchical    = "hierarchical"
)

// Algorithms lists what a link's algorithm may be.
func Algorithms() []string {
	return []string{RingAlgorithm, TreeAlgorithm, HalvingDoubling, Hierarchical, Auto}
}

// CollectiveTime is how long a fused collective with a tensor of S bytes takes
// over n ranks: what was measured, if a table of the link has n; else the
// closed form of the algorithm that the link names, a ring if it names none.
// An algorithm that is not possible there gives way to the ring.
func (l Link) CollectiveTime(k graph.Kind, n int, bytes int64) time.Duration {
	switch {
	case n < 2:
		return 0
	case k == graph.Broadcast:
		return l.broadcastTime(n, bytes)
	}
	if took, ok := l.measured(k, n, bytes); ok {
		return took
	}
	best := l.ringTime(k, n, bytes)
	for _, candidate := range [...]string{TreeAlgorithm, HalvingDoubling, Hierarchical} {
		if l.Algorithm != candidate && (l.Algorithm != Auto || candidate != TreeAlgorithm) {
			continue
		}
		if took, possible := l.alternative(candidate, k, n, bytes); possible && (took < best || l.Algorithm == candidate) {
			best = took
		}
	}
	return best
}

// broadcastTime prices a ring on which every rank but the last passes on the whole
// tensor, in small pieces: n − 1 steps of latency, and the time of S bytes. That is the
// gathering half of an all-reduce of n/(n−1) times as many, by whose table it goes where
// there is one. With halving-doubling it is a binomial tree: log₂ n steps, each of the
// whole tensor (Thakur, Rabenseifner & Gropp 2005, section 4.2; Gloo).
func (l Link) broadcastTime(n int, bytes int64) time.Duration {
	if l.Algorithm == HalvingDoubling {
		step := units.Sum(time.Duration(l.Latency), units.Seconds(float64(bytes)/l.BusBandwidth()))
		return units.Sum(time.Duration(l.Call), units.Repeat(log2(n), step))
	}
	l.AllGather = nil
	return l.CollectiveTime(graph.AllGather, n, bytes+bytes/int64(n-1))
}

// alternative prices an algorithm beside the ring, if it is possible there. Only
// all-reduces go through trees; two levels take several nodes and several ranks
// on each.
func (l Link) alternative(algorithm string, k graph.Kind, n int, bytes int64) (took time.Duration, possible bool) {
	switch algorithm {
	case HalvingDoubling:
		return l.halvingTime(k, n, bytes), true
	case TreeAlgorithm:
		return l.treeTime(n, bytes), k == graph.AllReduce
	}
	if l.levels == nil || l.levels.perNode == 0 {
		return 0, false
	}
	return l.hierarchicalTime(k, bytes), true
}

// ringTime evaluates the closed form of a ring: n − 1 steps of S/n bytes for a
// reduce-scatter or an all-gather, twice that for an all-reduce (Patarasuk &
// Yuan 2009, section 3). On equal links, with a length that n divides, it is what
// simulating collective.Call gives. A ring over nodes goes from one to the next as often
// as there are nodes, and takes all other steps inside them.
func (l Link) ringTime(k graph.Kind, n int, bytes int64) time.Duration {
	step, moves := units.Seconds(float64(bytes)/float64(n)/l.BusBandwidth()), Moves(k)
	if l.levels == nil {
		return units.Sum(time.Duration(l.Call), units.Repeat(moves*(n-1), units.Sum(step, time.Duration(l.Latency))))
	}
	between := min(l.levels.nodes, n-1)
	return units.Sum(time.Duration(l.Call), units.Repeat(moves*(n-1), step),
		units.Repeat(moves*between, time.Duration(l.levels.across.Latency)),
		units.Repeat(moves*(n-1-between), time.Duration(l.levels.within.Latency)))
}

// treeTime prices an all-reduce through two binary trees of which each takes half of
// the tensor, up and down, in pieces so small that levels overlap: 2⌈log₂ n⌉
// steps of latency, and every rank sends its half up one tree and down the other
// to two children, 2S in all (Sanders, Speck & Träff 2009; NCCL 2.4). Two ranks
// have one child between them and send S. Over nodes the trees are of nodes, and
// within one the ranks make a chain; the slower of both levels bounds the flow.
func (l Link) treeTime(n int, bytes int64) time.Duration {
	if l.levels == nil || l.levels.perNode == 0 {
		return units.Sum(time.Duration(l.Call), units.Repeat(2*log2(n), time.Duration(l.Latency)), units.Seconds(treeBytes(n, bytes)/l.BusBandwidth()))
	}
	v := l.levels
	flow := max(treeBytes(v.nodes, bytes)/v.across.BusBandwidth(), treeBytes(v.perNode, bytes)/v.within.BusBandwidth())
	return units.Sum(time.Duration(l.Call), units.Repeat(2*log2(v.nodes), time.Duration(v.across.Latency)),
		units.Repeat(2*(v.perNode-1), time.Duration(v.within.Latency)), units.Seconds(flow))
}

// treeBytes counts what the busiest rank of two trees sends.
func treeBytes(n int, bytes int64) float64 {
	if n == 2 {
		return float64(bytes)
	}
	return 2 * float64(bytes)
}

// halvingTime prices recursive halving, doubling, or one after the other: log₂ n
// steps each, with as many bytes as a ring (Thakur, Rabenseifner & Gropp 2005,
// sections 4.1 to 4.4). If n is no power of two, the ranks above the largest give
// their tensors to others first and get the result at last. It supposes that any
// two ranks can exchange at full speed.
func (l Link) halvingTime(k graph.Kind, n int, bytes int64) time.Duration {
	power := 1 << (bits.Len(uint(n)) - 1)
	rounds, folds := Moves(k), 0
	if n > power {
		folds = rounds
	}
	share := float64(power-1) / float64(power)
	moved := (float64(rounds)*share + float64(folds)) * float64(bytes)
	return units.Sum(time.Duration(l.Call), units.Repeat(rounds*log2(power)+folds, time.Duration(l.Latency)), units.Seconds(moved/l.BusBandwidth()))
}

// hierarchicalTime prices a collective in two levels, one after the other: a
// reduce-scatter within every node, the collective between nodes, in which every
// rank has its share, and an all-gather within every node (Thakur et al. 2005
// call for it on clusters of SMPs; NCCL, Horovod and BlueConnect have it). The
// shares of a node's ranks go through all of its cards.
func (l Link) hierarchicalTime(k graph.Kind, bytes int64) time.Duration {
	v := l.levels
	within := func(k graph.Kind) time.Duration { return v.within.CollectiveTime(k, v.perNode, bytes) }
	between := v.across.ringTime(k, v.nodes, bytes)
	if k == graph.AllReduce {
		return units.Sum(within(graph.ReduceScatter), between, within(graph.AllGather))
	}
	return units.Sum(within(k), between)
}

// An AllToAll is what an all-to-all goes through in which every device sends to Peers others
// of its node, and to other nodes over what it has of a network.
type AllToAll struct {
	Peers          int
	Within, Across Link
}

// Time is how long it takes with so many bytes that a device sends inside its node, and
// between nodes: side by side, and to all at once. What a switch adds up in other
// collectives does not help it.
func (a AllToAll) Time(inside, between float64) time.Duration {
	var call, latency, moving time.Duration
	for _, part := range []struct {
		link  Link
		bytes float64
	}{{a.Within, inside}, {a.Across, between}} {
		l := part.link
		if part.bytes == 0 {
			continue
		}
		rate := min(float64(l.Bandwidth), l.BusBandwidth())
		if l.AllToAll > 0 {
			rate = min(float64(l.AllToAll), float64(l.Bandwidth)*float64(a.Peers))
		}
		call, latency = max(call, time.Duration(l.Call)), max(latency, time.Duration(l.Latency))
		moving = max(moving, units.Seconds(part.bytes/rate))
	}
	return units.Sum(call, latency, moving)
}

// log2 returns the logarithm of n, rounded up.
func log2(n int) int { return int(math.Ceil(math.Log2(float64(n)))) }
