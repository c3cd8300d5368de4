package costmodel

import (
	"math"
	"math/bits"
	"time"

	"psim/schedules/graph"
)

// The algorithms of collectives that a link may name. Auto is the fastest of
// those that NCCL has (ring, tree, and in two levels where there are several
// nodes); halving-doubling is MPI's and Gloo's, and is taken only by name.
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

// levels are what a group over several nodes can use beside one flat ring: as
// many ranks on each node, and a network with all cards that they have.
type levels struct {
	nodes, perNode int
	link, network  Link
}

// CollectiveTime is how long a fused collective with a tensor of S bytes takes
// over n ranks: what was measured, if a table of the link has n; else the
// closed form of the algorithm that the link names, a ring if it names none.
// An algorithm that is not legal there gives way to the ring.
func CollectiveTime(k graph.Kind, l Link, n int, bytes int64) time.Duration {
	took, _ := chosen(k, l, n, bytes)
	return took
}

// CollectiveAlgorithm names what CollectiveTime takes: an algorithm, or
// "measured".
func CollectiveAlgorithm(k graph.Kind, l Link, n int, bytes int64) string {
	_, name := chosen(k, l, n, bytes)
	return name
}

func chosen(k graph.Kind, l Link, n int, bytes int64) (time.Duration, string) {
	if n < 2 {
		return 0, RingAlgorithm
	}
	if took, ok := l.measured(k, n, bytes); ok {
		return took, "measured"
	}
	best, name := ringTime(k, l, n, bytes), RingAlgorithm
	for _, other := range [...]string{TreeAlgorithm, HalvingDoubling, Hierarchical} {
		if l.Algorithm != other && (l.Algorithm != Auto || other == HalvingDoubling) {
			continue
		}
		if took, legal := otherTime(other, k, l, n, bytes); legal && (took < best || l.Algorithm == other) {
			best, name = took, other
		}
	}
	return best, name
}

// otherTime is the time of an algorithm beside the ring, if it is legal. Only
// all-reduces go through trees; two levels take several nodes and several ranks
// on each.
func otherTime(algorithm string, k graph.Kind, l Link, n int, bytes int64) (took time.Duration, legal bool) {
	switch algorithm {
	case HalvingDoubling:
		return halvingTime(k, l, n, bytes), true
	case TreeAlgorithm:
		return treeTime(l, n, bytes), k == graph.AllReduce
	}
	if l.levels == nil {
		return 0, false
	}
	return hierarchicalTime(k, l, bytes), true
}

// ringTime is the closed form of a ring: n − 1 steps of S/n bytes for a
// reduce-scatter or an all-gather, twice that for an all-reduce (Patarasuk &
// Yuan 2009, section 3). On equal links, with a length that n divides, it is what
// simulating schedules.Ring gives.
func ringTime(k graph.Kind, l Link, n int, bytes int64) time.Duration {
	return total(time.Duration(l.Call), repeated(moves(k)*(n-1), total(seconds(float64(bytes)/float64(n)/l.ring()), time.Duration(l.Latency))))
}

// treeTime is an all-reduce through two binary trees of which each takes half of
// the tensor, up and down, in pieces so small that levels overlap: 2⌈log₂ n⌉
// steps of latency, and every rank sends its half up one tree and down the other
// to two children, 2S in all (Sanders, Speck & Träff 2009; NCCL 2.4). Two ranks
// have one child between them and send S. Over nodes the trees are of nodes, and
// within one the ranks make a chain; the slower of both levels bounds the flow.
func treeTime(l Link, n int, bytes int64) time.Duration {
	if l.levels == nil {
		return total(time.Duration(l.Call), repeated(2*log2(n), time.Duration(l.Latency)), seconds(treeBytes(n, bytes)/l.ring()))
	}
	v := l.levels
	flow := max(treeBytes(v.nodes, bytes)/v.network.ring(), treeBytes(v.perNode, bytes)/v.link.ring())
	return total(time.Duration(l.Call), repeated(2*log2(v.nodes), time.Duration(v.network.Latency)),
		repeated(2*(v.perNode-1), time.Duration(v.link.Latency)), seconds(flow))
}

// treeBytes is what the busiest rank of two trees sends.
func treeBytes(n int, bytes int64) float64 {
	if n == 2 {
		return float64(bytes)
	}
	return 2 * float64(bytes)
}

// halvingTime is recursive halving, doubling, or one after the other: log₂ n
// steps each, with as many bytes as a ring (Thakur, Rabenseifner & Gropp 2005,
// sections 4.1 to 4.4). If n is no power of two, the ranks above the largest give
// their tensors to others first and get the result at last. It supposes that any
// two ranks can exchange at full speed.
func halvingTime(k graph.Kind, l Link, n int, bytes int64) time.Duration {
	power := 1 << (bits.Len(uint(n)) - 1)
	rounds, folds := moves(k), 0
	if n > power {
		folds = rounds
	}
	share := float64(power-1) / float64(power)
	moved := (float64(rounds)*share + float64(folds)) * float64(bytes)
	return total(time.Duration(l.Call), repeated(rounds*log2(power)+folds, time.Duration(l.Latency)), seconds(moved/l.ring()))
}

// hierarchicalTime is a collective in two levels, one after the other: a
// reduce-scatter within every node, the collective between nodes, in which every
// rank has its share, and an all-gather within every node (Thakur et al. 2005
// call for it on clusters of SMPs; NCCL, Horovod and BlueConnect have it). The
// shares of a node's ranks go through all of its cards.
func hierarchicalTime(k graph.Kind, l Link, bytes int64) time.Duration {
	v := l.levels
	within := func(k graph.Kind) time.Duration { return CollectiveTime(k, v.link, v.perNode, bytes) }
	across := ringTime(k, v.network, v.nodes, bytes)
	if k == graph.AllReduce {
		return total(within(graph.ReduceScatter), across, within(graph.AllGather))
	}
	return total(within(k), across)
}

// repeated is a number of equal steps.
func repeated(steps int, step time.Duration) time.Duration {
	if steps > 0 && step > maxTime/time.Duration(steps) {
		return maxTime
	}
	return time.Duration(steps) * step
}

// log2 is the logarithm of n, rounded up.
func log2(n int) int { return int(math.Ceil(math.Log2(float64(n)))) }
